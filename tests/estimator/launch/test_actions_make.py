"""GitHub Actions workflows and Makefiles."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.launches import candidates, find
from tests.estimator.launch.trees import Tree

TRAIN = """\
import argparse
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader([], batch_size=args.batch_size, shuffle=True):
    model(**batch).loss.backward()
    optimizer.step()
"""
FLOW = ".github/workflows/train.yml"
ACTIONS = """\
on: push
env: {BATCH: "2"}
jobs:
  train:
    runs-on: [self-hosted, big-gpu]
    env: {BATCH: "8"}
    steps:
      - uses: actions/checkout@v4
      - run: pip install -r requirements.txt
      - working-directory: src
        run: |
          python train.py --batch-size $BATCH
  test:
    runs-on: ubuntu-latest
    steps: [{run: python src/train.py}]
"""
MAKE = """\
PYTHON ?= python
BATCH := 8
ARGS = --batch-size $(BATCH)

.PHONY: train
train: data
\t@echo start
\t$(PYTHON) src/train.py \\
\t  $(ARGS)

quick:
\t-cd src && $(PYTHON) train.py --batch-size $$SMALL
"""


def shown(files: dict[str, str], path: str, labels: dict[str, str] | None = None) -> list[dict[str, Any]]:
    found = find(Tree({"src/train.py": TRAIN, **files}), [path], labels=labels).launches
    entries = [launch.to_json() for launch in found]
    return [{**entry["run_config"], **entry["target"], "line": entry["line"]} for entry in entries]


def test_a_runner_is_a_gpu_through_targets_and_the_innermost_variable_wins() -> None:
    (run,) = shown({FLOW: ACTIONS}, FLOW, {"big-gpu": "A100-80GB"})
    assert (run["gpu"], run["micro_batch"], run["nodes"], run["line"]) == ("A100-80GB", 8, 1, 12)


def test_an_unmapped_gpu_runner_is_unknown_and_a_plain_one_is_no_launch() -> None:
    (run,) = shown({FLOW: ACTIONS}, FLOW)
    assert (run["gpu"], run["micro_batch"]) == (None, 8)
    plain = ACTIONS.replace("[self-hosted, big-gpu]", "ubuntu-latest")
    assert shown({FLOW: plain}, FLOW) == []


def test_a_label_may_hold_an_instance_type() -> None:
    text = ACTIONS.replace("[self-hosted, big-gpu]", "linux.g5.12xlarge.nvidia.gpu")
    (run,) = shown({FLOW: text}, FLOW)
    assert (run["gpu"], run["gpus_per_node"]) == ("NVIDIA A10G", 4)


def test_what_is_filled_in_at_run_time_stays_unknown() -> None:
    text = ACTIONS.replace("$BATCH", "${{ inputs.batch }}")
    (run,) = shown({FLOW: text}, FLOW)
    assert run["micro_batch"] is None


def test_recipes_of_a_makefile_are_commands() -> None:
    train, quick = shown({"Makefile": MAKE}, "Makefile")
    assert (train["micro_batch"], train["line"]) == (8, 8)
    assert quick["micro_batch"] is None


@pytest.mark.parametrize(
    ("command", "batches"), [("make train", [8]), ("make BATCH=16 train", [16]), ("make nothing", [])]
)
def test_make_runs_the_target_that_it_is_given(command: str, batches: list[int]) -> None:
    found = shown({"Makefile": MAKE, "go.sh": f"#!/bin/bash\n# python\n{command}\n"}, "go.sh")
    assert [run["micro_batch"] for run in found] == batches


@pytest.mark.parametrize("line", ["X = $(X) python", "X = $(Y)\nY = $(X)", "X := $(shell rm -rf /)"])
def test_variables_that_name_themselves_end(line: str) -> None:
    found = shown({"Makefile": f"{line}\nall:\n\tpython src/train.py --batch-size $(X)\n"}, "Makefile")
    assert all(run["micro_batch"] is None for run in found)


def test_they_are_found_in_a_tree() -> None:
    tree = Tree({FLOW: ACTIONS, "Makefile": MAKE, ".vscode/x.json": "{}"})
    assert {FLOW, "Makefile"} == set(candidates(tree))
