"""Hydra applications: composed without running anything."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.api import affected
from estimator.launch.base import Arg
from estimator.launches import find, read
from estimator.resolve.closure import closure
from estimator.resolve.hydra import Composer, NotComposed, leaves, overrides_of, resolved
from tests.estimator.launch.trees import Tree

MAIN = """\
import hydra
import lightning as L


@hydra.main(version_base="1.3", config_path="../conf", config_name="train")
def main(cfg):
    trainer = hydra.utils.instantiate(cfg.trainer)
"""
MODULE = """\
class Data:
    def setup(self, stage=None):
        self.per_device = self.hparams.batch_size // self.trainer.world_size
"""
FILES: dict[str, str] = {
    "src/train.py": MAIN,
    "src/data.py": MODULE,
    "conf/train.yaml": "defaults:\n  - _self_\n  - data: small\n  - model: net\n  - trainer: default\n"
    "  - experiment: null\n  - optional local: default\nseed: 1\nmodel: {size: 1}\n",
    "conf/data/small.yaml": "_target_: src.data.Data\nbatch_size: 32\n",
    "conf/data/large.yaml": "_target_: src.data.Data\nbatch_size: 256\n",
    "conf/model/net.yaml": "defaults: [optimizer: adam]\nsize: 2\nbackbone: ${name}\n",
    "conf/model/optimizer/adam.yaml": "_target_: torch.optim.Adam\nlr: 0.1\n",
    "conf/model/optimizer/sgd.yaml": "_target_: torch.optim.SGD\n",
    "conf/trainer/default.yaml": "_target_: lightning.Trainer\naccelerator: gpu\ndevices: 1\n",
    "conf/trainer/ddp.yaml": "defaults: [default]\nstrategy: ddp\ndevices: 4\nprecision: bf16-mixed\n",
    "conf/experiment/big.yaml": "# @package _global_\n"
    "defaults:\n  - override /data: large\n  - override /trainer: ddp\n"
    "data: {batch_size: 64}\ntrainer: {accumulate_grad_batches: 2}\n",
}


def composed(*words: str, **changed: str) -> dict[str, Any]:
    files = {**FILES, **{f"conf/{name.replace('__', '/')}.yaml": text for name, text in changed.items()}}
    composer = Composer(Tree(dict(files)), ("conf",), overrides_of([Arg(word, "command line", 1) for word in words]))
    root = composer.compose("train")
    return {key: resolved(root, node).value for key, node in leaves(root)}


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        ((), "data.batch_size", 32),
        ((), "model.size", 2),  # _self_ is first: the group wins
        ((), "model.optimizer._target_", "torch.optim.Adam"),
        (("data=large",), "data.batch_size", 256),
        (("data.batch_size=8",), "data.batch_size", 8),
        (("++data.batch_size=8",), "data.batch_size", 8),
        (("+data.extra=8",), "data.extra", 8),
        (("~seed",), "seed", None),
        (("model/optimizer=sgd",), "model.optimizer._target_", "torch.optim.SGD"),
        (("trainer=ddp",), "trainer.devices", 4),
        (("trainer=ddp",), "trainer.accelerator", "gpu"),
        (("experiment=big",), "data.batch_size", 64),
        (("experiment=big",), "trainer.devices", 4),
        (("experiment=big", "trainer=default"), "trainer.devices", 1),  # the command line beats an override inside
        (("experiment=big", "data.batch_size=128"), "data.batch_size", 128),
        (("+trainer@second=ddp",), "second.devices", 4),
    ],
)
def test_who_overrides_whom(words: tuple[str, ...], key: str, value: object) -> None:
    assert composed(*words).get(key) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${seed}", 1),
        ("${a}", 5),
        ("${oc.env:NUM,7}", 7),
        ("${oc.env:NUM}", "${oc.env:NUM}"),
        ("${eval:2*3}", "${eval:2*3}"),
        ("???", "$MANDATORY"),
        ("${x}", "${x}"),
    ],
)
def test_interpolations(text: str, value: object) -> None:
    changed = FILES["conf/train.yaml"] + f"a: 5\nx: {text}\n"
    assert composed(train=changed)["x"] == value


@pytest.mark.parametrize(
    "changed",
    [
        {"trainer__default": "defaults: [ddp]\n", "trainer__ddp": "defaults: [default]\n"},
        {"trainer__default": "defaults: [default]\n"},
        {"train": "defaults: [trainer: ../../../etc/passwd]\n"},
        {"train": "defaults: [trainer: /etc/passwd]\n"},
        {"train": "defaults: [trainer: missing]\n"},
        {"train": "defaults: [trainer: '${oc.env:X}']\n"},
        {"train": "defaults: [" + "trainer: [default, default], " * 90 + "]\n"},
        {"train": "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: {" * 70},
        {"data__small": "\x00: ["},
    ],
)
def test_hostile_configurations_end_in_words(changed: dict[str, str]) -> None:
    with pytest.raises(NotComposed, match=r"\w{4}"):
        composed(**changed)


def test_an_experiment_that_includes_itself_ends() -> None:
    assert "trainer.devices" in composed("experiment=big", experiment__big="defaults: [override /experiment: big]\n")


def shown(files: dict[str, str], command: str = "python src/train.py trainer=ddp") -> dict[str, Any]:
    (launch,) = find(Tree(dict(files)), command=command).launches
    entry = launch.to_json()
    return {**entry["run_config"], **entry["target"]}


def test_a_lightning_application_is_a_whole_run() -> None:
    run = shown(FILES, "python src/train.py experiment=big data.batch_size=128")
    wanted = {"micro_batch": 32, "grad_accum": 2, "precision": "amp-bf16", "sharding": "ddp", "gpus_per_node": 4}
    assert run | wanted == run
    assert run["optimizer"] == "adamw"


def test_a_batch_for_all_processes_is_unknown_without_the_data_module() -> None:
    files = {path: text for path, text in FILES.items() if path != "src/data.py"}
    assert shown(files)["micro_batch"] is None
    assert shown(files, "python src/train.py")["micro_batch"] == 32  # one process: no question


def test_a_data_module_that_does_not_divide_gives_each_process_its_batch() -> None:
    assert shown({**FILES, "src/data.py": "class Data:\n    pass\n"})["micro_batch"] == 32


def test_what_the_environment_decides_is_unknown() -> None:
    files = {**FILES, "conf/data/small.yaml": "_target_: src.data.Data\nbatch_size: ${oc.env:BATCH}\n"}
    assert shown(files)["micro_batch"] is None


def test_an_application_on_the_cpu_asks_for_no_gpu() -> None:
    found = find(Tree({**FILES}), command="python src/train.py trainer.accelerator=cpu").launches
    assert all(launch.to_json()["target"]["gpus_per_node"] is None for launch in found)


def test_adapters_are_not_guessed_away() -> None:
    files = {**FILES, "conf/model/net.yaml": "lora: {rank: 8}\n"}
    assert shown(files)["method"] is None


def test_the_primary_configuration_and_the_experiments_are_launch_files() -> None:
    tree = Tree(dict(FILES))
    (primary,) = find(tree, ["conf/train.yaml"]).launches
    (experiment,) = find(tree, ["conf/experiment/big.yaml"]).launches
    assert (primary.run.num_gpus.value, experiment.run.num_gpus.value) == (1, 4)
    assert find(tree, ["conf/trainer/ddp.yaml"]).launches == ()


def test_groups_that_are_chosen_are_in_the_closure() -> None:
    tree = Tree({**FILES, "go.sh": "#!/bin/bash\npython src/train.py trainer=ddp\n"})
    (config,) = read(tree, "go.sh")
    found = closure(tree, config)
    assert {"conf/trainer/ddp.yaml", "conf/trainer/default.yaml", "conf/data/small.yaml", "src/data.py"} <= found
    assert "conf/data/large.yaml" not in found


def test_a_group_file_moves_the_launches_that_choose_it() -> None:
    slurm = "#!/bin/bash\n#SBATCH --gres=gpu:h100:4\nsrun python src/train.py trainer=ddp model.backbone=resnet50\n"
    head = Tree({**FILES, "job.slurm": slurm})
    base = head.with_edit("conf/data/small.yaml", "batch_size: 32", "batch_size: 8")
    found = affected(base, head, ["conf/data/small.yaml"])
    assert [impact.path for impact in found if impact.path == "job.slurm"] == ["job.slurm"]
    assert any("conf/data/small.yaml:2" in line for impact in found for line in impact.moved)
    assert affected(head, head, ["conf/data/large.yaml"]) == ()
