"""Scripts around Lightning's Trainer: the module is the network; the trainer says precision, accumulation, devices."""

from __future__ import annotations

import pytest

from estimator.launches import find
from estimator.report import Estimate
from estimator.resolve.script import run_configs
from estimator.runconfig import RunConfig
from tests.estimator.launch.trees import Tree

SCRIPT = """
import torch, torch.nn as nn
import pytorch_lightning as pl
from torch.utils.data import DataLoader
from data import Clips

class Lit(pl.LightningModule):
    def __init__(self, hidden=512):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Conv1d(80, hidden, 5, padding=2), nn.ReLU())
        self.head = nn.Linear(hidden, 35)

    def forward(self, x):
        return self.head(self.net(x).mean(-1))

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

if __name__ == "__main__":
    trainer = pl.Trainer(ARGUMENTS)
    trainer.fit(Lit(hidden=256), DataLoader(Clips(), batch_size=64, shuffle=True))
"""
PARAMS = 80 * 256 * 5 + 256 + 256 * 35 + 35


def launched(arguments: str, command: str = "python train.py", gpus: int = 4) -> Estimate:
    tree = Tree({
        "train.py": SCRIPT.replace("ARGUMENTS", arguments),
        "run.slurm": f"#!/bin/bash\n#SBATCH --gres=gpu:t4:{gpus}\n{command}\n",
    })  # fmt: skip
    (found,) = find(tree, ["run.slurm"]).launches
    assert found.estimate is not None
    return found.estimate


def words(result: Estimate) -> dict[str, object]:
    return {line.name: line.value for line in result.inputs}


@pytest.mark.parametrize("module", ["pytorch_lightning as pl", "lightning as pl", "lightning.pytorch as pl"])
def test_the_module_is_the_network_that_is_trained(module: str) -> None:
    text = SCRIPT.replace("pytorch_lightning as pl", module).replace("ARGUMENTS", "")
    (run,) = run_configs(Tree({"train.py": text}), "train.py", ())
    assert isinstance(run, RunConfig)
    assert run.network.value.params == PARAMS  # type: ignore[union-attr]
    assert (run.micro_batch.value, run.precision.value, run.grad_accum.value) == (64, "fp32", 1)


@pytest.mark.parametrize(
    ("given", "precision"),
    [("'16-mixed'", "amp-fp16"), ("16", "amp-fp16"), ("'bf16-mixed'", "amp-bf16"), ("'bf16-true'", "pure-bf16"),
     ("32", "fp32"), ("'16-true'", "pure-fp16")],
)  # fmt: skip
def test_precision_is_the_trainers(given: str, precision: str) -> None:
    found = words(launched(f"precision={given}, accumulate_grad_batches=4, devices=1"))
    assert (found["precision"], found["grad_accum"], found["num_gpus"]) == (precision, 4, 1)


@pytest.mark.parametrize(
    ("arguments", "command", "expected"),
    [
        ("devices=2", "python train.py", (2, "ddp")),
        ("devices=[0, 1, 3]", "python train.py", (3, "ddp")),
        ("devices='0,1'", "python train.py", (2, "ddp")),
        ("", "python train.py", (4, "ddp")),
        ("devices='auto', strategy='auto'", "python train.py", (4, "ddp")),
        ("devices=-1", "CUDA_VISIBLE_DEVICES=2,3 python train.py", (2, "ddp")),
        ("devices=1", "python train.py", (1, "none")),
        ("devices=4, strategy='fsdp'", "python train.py", (4, "fsdp")),
        ("devices=4, strategy='deepspeed_stage_3'", "python train.py", (4, "zero3")),
        ("devices=2", "torchrun --nproc_per_node 2 train.py", (2, "ddp")),
    ],
)
def test_it_starts_a_process_per_device(arguments: str, command: str, expected: tuple[int, str]) -> None:
    found = words(launched(arguments, command))
    assert (found["num_gpus"], found["sharding"]) == expected


def test_devices_and_strategies_that_nobody_can_read_are_unknown() -> None:
    result = launched("devices=how_many(), strategy=chosen()")
    assert not {"num_gpus", "sharding"} & set(words(result))
