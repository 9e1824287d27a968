# The bare `make` lists what there is.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help demo test test-browser test-exact lint docs bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,embedded]'
	@touch $(STAMP)

demo: $(STAMP) ## the main job, end to end, against a local GitHub (REPO=path BASE=ref HEAD=ref: on your own repository)
	@$(BIN)/python -I -m preflight demo $(if $(REPO),--repo '$(REPO)' --base '$(BASE)' $(if $(HEAD),--head '$(HEAD)'))

test: $(STAMP) ## every test that needs neither torch nor a browser
	$(BIN)/python -m pytest -n 2 -m 'not browser and not exact'

test-browser: $(STAMP) ## the pages, in a real headless Chromium (Debian: apt-get install chromium chromium-driver)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,embedded,browser]'
	$(BIN)/python -m pytest -m browser

test-exact: $(STAMP) ## what needs torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0'
	$(BIN)/python -m pytest -m exact

lint: $(STAMP) ## ruff, mypy --strict, import-linter, generated documents up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -I -m preflight docs --check
	$(BIN)/python -m benchmarks.accuracy --check
	$(BIN)/python -m estimator.calibration page --check

docs: $(STAMP) ## write the generated documents
	$(BIN)/python -I -m preflight docs
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m estimator.calibration page

bench: $(STAMP) ## measure, and write docs/benchmarks.md
	$(BIN)/python benchmarks/bench.py

clean: ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
