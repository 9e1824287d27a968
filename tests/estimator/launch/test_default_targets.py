"""The GPU that the configuration gives a launch which names none."""

from __future__ import annotations

import pytest

from estimator.api import launches
from tests.estimator.launch.trees import Tree

TRAIN = "from transformers import AutoModelForCausalLM\nAutoModelForCausalLM.from_pretrained('gpt2')\n"


def _gpu(directive: str, targets: dict[str, str]) -> object:
    script = f"#!/bin/bash\n#SBATCH --gres=gpu:1\n{directive}\npython train.py\n"
    found = launches(Tree({"train.slurm": script, "train.py": TRAIN}), ["train.slurm"], targets=targets)
    (launch,) = found.launches
    return launch.to_json()["target"]["gpu"]


@pytest.mark.parametrize(
    ("directive", "targets", "gpu"),
    [
        ("", {}, None),
        ("", {"": "A100-40GB"}, "A100-40GB"),
        ("", {"": "A100-40GB,H100-80GB"}, ["A100-40GB", "H100-80GB"]),
        ("", {"*": "T4"}, "T4"),
        ("", {"*": "T4", "": "L4"}, "L4"),
        ("#SBATCH --partition=long", {"": "A100-40GB"}, None),
        ("#SBATCH --partition=long", {"*": "T4", "": "L4"}, "T4"),
        ("#SBATCH --partition=long", {"*": "T4", "long": "H100-80GB"}, "H100-80GB"),
        ("#SBATCH --constraint=a100", {"*": "T4"}, "a100"),
    ],
)
def test_a_default_stands_in_and_beats_nothing(directive: str, targets: dict[str, str], gpu: object) -> None:
    assert _gpu(directive, targets) == gpu
