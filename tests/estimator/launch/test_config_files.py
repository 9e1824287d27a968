"""Config files that a launch names, and who wins over them."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.launch.base import Arg, LaunchConfig, Request
from estimator.launch.shell import READER
from estimator.resolve.closure import script_path
from estimator.resolve.configfiles import deepspeed_facts
from tests.estimator.launch.trees import Tree

FSDP = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: SHARD_GRAD_OP
  fsdp_offload_params: true
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""


def launch(command: str, files: dict[str, str | bytes]) -> LaunchConfig:
    content = f"#!/bin/bash\n{command}\n"
    (found,) = READER.read(Request(path="scripts/run.sh", content=content.encode(), files=Tree(files)))
    return found


def test_accelerate_yaml_fills_what_the_command_leaves_open() -> None:
    found = launch("accelerate launch --config_file fsdp.yaml train.py", {"fsdp.yaml": FSDP})
    values = {name: (value.value, value.origin.path, value.origin.line) for name, value in found.overrides.items()}
    assert found.processes.per_node.value == 8
    assert values == {
        "compute_dtype": ("bf16", "fsdp.yaml", 6),
        "sharding": ("zero2", "fsdp.yaml", 4),
        "offload": ("both", "fsdp.yaml", 5),
    }


def test_the_command_line_beats_the_yaml() -> None:
    found = launch("accelerate launch --num_processes 2 --config_file fsdp.yaml train.py", {"fsdp.yaml": FSDP})
    assert found.processes.per_node.value == 2


HOSTILE_YAML = [
    "a: &a [1]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(50)),
    "[" * 5000,
    "num_processes: [8]\n",
    "num_processes: many\n",
    "!!python/object/apply:os.system ['true']\n",
    "- 1\n- 2\n",
    "key: 'unclosed\n",
]


@pytest.mark.parametrize("document", HOSTILE_YAML)
def test_a_strange_yaml_says_nothing(document: str) -> None:
    found = launch("accelerate launch --config_file c.yaml train.py", {"c.yaml": document})
    assert not found.processes.per_node.is_known


DEEPSPEED: list[tuple[str, dict[str, Any]]] = [
    ("{}", {"sharding": "ddp", "offload": "none"}),
    ('{"zero_optimization": {"stage": 3}}', {"sharding": "zero3", "offload": "none"}),
    (
        '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true}}',
        {"sharding": "zero2", "offload": "optimizer", "precision": "bf16-master"},
    ),
    (
        (
            '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"},'
            ' "offload_param": {"device": "cpu"}}}'
        ),
        {"sharding": "zero3", "offload": "both"},
    ),
    (
        '{"fp16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4}',
        {"sharding": "ddp", "offload": "none", "grad_accum": 4},
    ),
    ('{"train_micro_batch_size_per_gpu": 2}', {"sharding": "ddp", "offload": "none", "micro_batch": 2}),
    ('{"zero_optimization": {"stage": {"x": 1}}}', {"offload": "none"}),
    ("[1, 2]", {}),
    ("[" * 100_000, {}),
    ("not json", {}),
]


@pytest.mark.parametrize(("document", "expected"), DEEPSPEED)
def test_deepspeed_json_decides_sharding_offload_and_precision(document: str, expected: dict[str, Any]) -> None:
    found = deepspeed_facts(
        Arg("ds.json", "run.sh", 1), Tree({"conf/ds.json": "{}", "ds.json": document}), ".", "run.sh"
    )
    assert {name: value.value for name, value in found.items()} == expected


SCRIPTS = [
    ("python train.py", ["train.py"], "train.py"),
    ("python train.py", ["scripts/train.py"], "scripts/train.py"),
    ("python ../src/train.py", ["src/train.py"], "src/train.py"),
    ("cd src\npython train.py", ["src/train.py", "train.py"], "src/train.py"),
    ("python /scratch/me/repo/src/train.py", ["src/train.py"], "src/train.py"),
    ("python $REPO/src/train.py", ["src/train.py"], "src/train.py"),
    ("python -m pkg.train", ["pkg/train.py"], "pkg/train.py"),
    ("python -m pkg", ["src/pkg/__main__.py"], "src/pkg/__main__.py"),
    ("python -m pkg.train", ["train.py"], None),
    ("python ../../../etc/train.py", ["x.py"], None),
]


@pytest.mark.parametrize(("command", "paths", "expected"), SCRIPTS)
def test_scripts_are_found_where_a_cluster_path_points(command: str, paths: list[str], expected: str | None) -> None:
    tree = dict.fromkeys(paths, "")
    found = launch(command, {**tree})
    assert script_path(Tree({**tree}), found.command, "scripts/run.sh") == expected
