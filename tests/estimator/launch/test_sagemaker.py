"""SageMaker SDK estimators in Python files and notebooks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from estimator.api import affected
from estimator.launches import Launch, find, read
from estimator.resolve.closure import closure
from tests.estimator.launch.trees import Tree

TRAIN = """\
import argparse
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--model_id", default="gpt2")
parser.add_argument("--batch_size", type=int, default=2)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(args.model_id, torch_dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader([], batch_size=args.batch_size, shuffle=True):
    model(**batch).loss.backward()
    optimizer.step()
"""
SUBMIT = """\
from sagemaker.huggingface import HuggingFace

params = {"model_id": "facebook/opt-1.3b", "batch_size": 4}
params["batch_size"] = 16
INSTANCE = "ml.p4d.24xlarge"
estimator = HuggingFace(
    entry_point="train.py",
    source_dir="./scripts",
    instance_type=INSTANCE,
    instance_count=2,
    hyperparameters=params,
    distribution={"torch_distributed": {"enabled": True}},
)
estimator.fit()
"""
FILES: Mapping[str, str] = {"sagemaker/submit.py": SUBMIT, "sagemaker/scripts/train.py": TRAIN}


def launch_of(tree: Tree, path: str = "sagemaker/submit.py") -> Launch:
    (launch,) = find(tree, [path]).launches
    return launch


def shown(launch: Launch) -> dict[str, Any]:
    found = launch.to_json()
    return {**found["run_config"], **found["target"]}


def test_hyperparameters_are_arguments_and_the_instance_is_the_target() -> None:
    launch = launch_of(Tree(dict(FILES)))
    assert shown(launch) | {"model": "facebook/opt-1.3b", "micro_batch": 16, "nodes": 2} == shown(launch)
    assert shown(launch)["gpu"] == "NVIDIA A100 40GB SXM"
    assert shown(launch)["gpus_per_node"] == 8
    assert launch.run.micro_batch.origin.path == "sagemaker/submit.py"
    assert launch.run.micro_batch.origin.line == 4
    assert launch.run.num_gpus.value == 8


def test_without_distribution_one_process_runs_on_an_instance_of_eight() -> None:
    plain = SUBMIT.replace('    distribution={"torch_distributed": {"enabled": True}},\n', "")
    launch = launch_of(Tree({**FILES, "sagemaker/submit.py": plain.replace("instance_count=2", "instance_count=1")}))
    assert (launch.run.num_gpus.value, launch.run.nodes.value, launch.run.sharding.value) == (1, 1, "none")


@pytest.mark.parametrize(
    ("distribution", "per_node"),
    [
        ('{"pytorchddp": {"enabled": True}}', 8),
        ('{"smdistributed": {"dataparallel": {"enabled": True}}}', 8),
        ('{"mpi": {"enabled": True, "processes_per_host": 4}}', 4),
        ('{"torch_distributed": {"enabled": False}}', 1),
        ("None", 1),
    ],
)
def test_the_distribution_says_how_many_processes_run(distribution: str, per_node: int) -> None:
    text = SUBMIT.replace('{"torch_distributed": {"enabled": True}}', distribution)
    (config,) = read(Tree({**FILES, "sagemaker/submit.py": text}), "sagemaker/submit.py")
    assert config.processes.per_node.value == per_node


def test_the_cells_of_a_notebook_are_one_program() -> None:
    head, _, rest = SUBMIT.partition("INSTANCE")
    cells = [
        {"cell_type": "code", "source": text.splitlines(keepends=True), "metadata": {}, "outputs": []}
        for text in ("!pip install sagemaker\n", head, f"INSTANCE{rest}")
    ]
    notebook = json.dumps({"nbformat": 4, "metadata": {}, "cells": cells}, indent=1)
    tree = Tree({"nb/submit.ipynb": notebook, "nb/scripts/train.py": TRAIN})
    launch = launch_of(tree, "nb/submit.ipynb")
    assert launch.run.micro_batch.value == 16
    line = launch.run.micro_batch.origin.line
    assert 'params[\\"batch_size\\"] = 16' in notebook.splitlines()[line - 1]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('instance_type=INSTANCE', 'instance_type=os.environ["INSTANCE"]', "gpu"),
        ('instance_type=INSTANCE', 'instance_type="local_gpu"', "gpu"),
        ("hyperparameters=params", "hyperparameters=load()", "micro_batch"),
        ("hyperparameters=params", "hyperparameters=params, git_config={'repo': 'x/y'}", "micro_batch"),
        ("estimator.fit()", "estimator.set_hyperparameters(batch_size=load())", "micro_batch"),
    ],
)  # fmt: skip
def test_what_the_file_does_not_say_stays_unknown(old: str, new: str, field: str) -> None:
    launch = launch_of(Tree({**FILES, "sagemaker/submit.py": SUBMIT.replace(old, new)}))
    assert shown(launch)[field] is None
    assert any(item["field"] == field and item["reason"] for item in launch.to_json()["unknowns"])


def test_hyperparameters_set_later_win() -> None:
    text = SUBMIT.replace("estimator.fit()", "estimator.set_hyperparameters(batch_size=32)")
    assert launch_of(Tree({**FILES, "sagemaker/submit.py": text})).run.micro_batch.value == 32


def test_a_model_trainer_is_an_estimator_in_parts() -> None:
    text = """\
from sagemaker.modules.train import ModelTrainer
from sagemaker.modules.configs import Compute, SourceCode
from sagemaker.modules.distributed import Torchrun

code = SourceCode(source_dir="scripts", entry_script="train.py")
machine = Compute(instance_type="ml.g5.12xlarge", instance_count=1)
trainer = ModelTrainer(
    source_code=code, compute=machine, distributed=Torchrun(), hyperparameters={"batch_size": 3},
)
trainer.train()
"""
    launch = launch_of(Tree({"submit.py": text, "scripts/train.py": TRAIN}), "submit.py")
    assert shown(launch)["gpu"] == "NVIDIA A10G"
    assert (launch.run.num_gpus.value, launch.run.micro_batch.value) == (4, 3)


def test_the_command_of_a_model_trainer_is_shell() -> None:
    text = """\
from sagemaker.modules.train import ModelTrainer
from sagemaker.modules.configs import Compute, SourceCode

code = SourceCode(source_dir="scripts", command="torchrun --nproc-per-node 4 train.py --batch_size 5")
machine = Compute(instance_type="ml.g5.12xlarge", instance_count=1)
trainer = ModelTrainer(source_code=code, compute=machine)
"""
    launch = launch_of(Tree({"submit.py": text, "scripts/train.py": TRAIN}), "submit.py")
    assert (launch.run.num_gpus.value, launch.run.micro_batch.value) == (4, 5)


def test_the_script_and_what_the_launcher_imports_are_in_the_closure() -> None:
    text = SUBMIT.replace('INSTANCE = "ml.p4d.24xlarge"', "from settings import INSTANCE")
    tree = Tree({**FILES, "sagemaker/submit.py": text, "sagemaker/settings.py": 'INSTANCE = "ml.g5.12xlarge"\n'})
    (config,) = read(tree, "sagemaker/submit.py")
    assert {"sagemaker/settings.py", "sagemaker/scripts/train.py"} <= closure(tree, config)
    assert shown(launch_of(tree))["gpu"] == "NVIDIA A10G"


def test_a_hyperparameter_moves_the_launch() -> None:
    base = Tree(dict(FILES)).with_edit("sagemaker/submit.py", '"] = 16', '"] = 1')
    (impact,) = affected(base, Tree(dict(FILES)), ["sagemaker/submit.py"])
    assert impact.moved[0].startswith("micro_batch 1 -> 16: sagemaker/submit.py:4 ")


@pytest.mark.parametrize("text", ["from sagemaker.pytorch import PyTorch\nPyTorch(instance_type=", "\x00sagemaker"])
def test_broken_programs_have_no_launches(text: str) -> None:
    assert find(Tree({"a.py": text}), ["a.py"]).launches == ()
