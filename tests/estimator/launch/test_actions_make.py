"""GitHub Actions workflows and Makefiles."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.launches import Launch, candidates, find
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


_CALLED = """\
on:
  workflow_call:
    inputs:
      runner: {type: string, default: ubuntu-latest}
      batch: {type: number, default: 2}
jobs:
  train:
    runs-on: ${{ inputs.runner }}
    env:
      BATCH: ${{ inputs.batch }}
    steps:
      - run: python train.py --batch-size $BATCH --epochs ${{ inputs.epochs }}
"""
_CALLER = """\
on: [push]
jobs:
  big:
    uses: ./.github/workflows/called.yml
    with:
      runner: linux.g5.12xlarge.nvidia.gpu
      batch: 16
  same:
    uses: ./.github/workflows/called.yml
    with: {runner: gpu-runner}
  loop:
    uses: ./.github/workflows/caller.yml
  gone:
    uses: ./.github/workflows/../../../../outside.yml
"""
_FOREIGN = """\
on: [push]
jobs:
  nightly:
    uses: pytorch/test-infra/.github/workflows/linux_job_v2.yml@main
    with:
      runner: linux.g5.12xlarge.nvidia.gpu
      script: |
        pip install -e .
        python train.py --batch-size 4
"""


def _called(text: str, name: str = "caller.yml") -> list[Launch]:
    folder = ".github/workflows"
    files: dict[str, str | bytes] = {f"{folder}/called.yml": _CALLED, f"{folder}/{name}": text, "train.py": TRAIN}
    return list(find(Tree(files), [f"{folder}/{name}"], labels={"gpu-runner": "A100-80GB"}).launches)


def test_a_workflow_that_is_called_runs_with_the_inputs_of_the_caller() -> None:
    big, same = _called(_CALLER)
    assert big.to_json()["target"] == {"gpu": "NVIDIA A10G", "gpus_per_node": 4, "nodes": 1}
    assert big.run.words()["micro_batch"].value == 16
    assert (big.config.path, big.config.line) == (".github/workflows/caller.yml", 3)
    assert ".github/workflows/called.yml" in big.config.sources
    assert same.run.words()["micro_batch"].value == 2
    assert same.to_json()["target"]["gpu"] == "A100-80GB"


def test_a_workflow_of_another_repository_is_told_the_runner_and_the_script() -> None:
    (launch,) = _called(_FOREIGN)
    assert launch.config.line == 9
    assert launch.run.words()["micro_batch"].value == 4
    assert launch.to_json()["target"]["gpus_per_node"] == 4


def test_a_workflow_that_is_called_has_the_defaults_of_its_inputs_by_itself() -> None:
    assert not _called(_CALLED, "called.yml")  # ubuntu-latest has no GPU
    (launch,) = _called(_CALLED.replace("ubuntu-latest", "gpu-runner"), "called.yml")
    assert launch.run.words()["micro_batch"].value == 2
