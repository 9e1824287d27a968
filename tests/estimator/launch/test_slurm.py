"""Slurm: which directives count, and what they say about hardware."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.launch.base import Arg, LaunchConfig, Request, reader_for
from estimator.launch.slurm import READER, directives
from estimator.sourced import Sourced, Unknown
from tests.estimator.launch.trees import Tree


def read(script: str, labels: dict[str, str] | None = None, options: tuple[Arg, ...] = ()) -> LaunchConfig:
    request = Request(path="job.slurm", content=script.encode(), files=Tree({}), labels=labels or {}, options=options)
    (launch,) = READER.read(request)
    return launch


def job(*lines: str, command: str = "srun python train.py") -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "", command, ""])


def value(sourced: Sourced[Any]) -> Any:
    return "?" if isinstance(sourced.value, Unknown) else sourced.value


HARDWARE = [
    (("--gres=gpu:a100:4",), ("a100",), 4, 1),
    (("--gres gpu:a100:4", "-N 2"), ("a100",), 4, 2),
    (("--gres=gpu:4",), "?", 4, 1),
    (("--gres=gpu",), "?", 1, 1),
    (("--gres=gpu:h100",), ("h100",), 1, 1),
    (("--gres=lscratch:100,gpu:v100:2(S:0-1)",), ("v100",), 2, 1),
    (("--gpus-per-node=h100:8", "--nodes=4"), ("h100",), 8, 4),
    (("--gpus=a100:8", "--nodes=2"), ("a100",), 4, 2),
    (("--gpus=a100:8", "--nodes=3"), ("a100",), "?", 3),
    (("-G a100:2",), ("a100",), 2, 1),
    (("--gpus-per-task=v100:1", "--ntasks-per-node=4", "-N2"), ("v100",), 4, 2),
    (("--gres=gpu:1g.10gb:1",), ("1g.10gb",), 1, 1),
    (("--gres=gpu:2", "-C a100"), ("a100",), 2, 1),
    (("--gres=gpu:2", "--constraint=a100|h100"), ("a100", "h100"), 2, 1),
    (("--gres=gpu:2", "--constraint=ib&h100"), ("h100",), 2, 1),
    (("--gres=gpu:2", "--constraint=nvlink"), "?", 2, 1),
    (("--gres=gpu:a100:4", "--constraint=a100-80gb"), ("a100-80gb",), 4, 1),
    (("--gpus-per-node=v100:4", "-C v100-32g|v100-32gb"), ("v100-32g", "v100-32gb"), 4, 1),
    (("--gres=gpu:a100:4", "--constraint=a100"), ("a100",), 4, 1),
    (("--gres=gpu:a100:4", "--constraint=h100"), ("a100",), 4, 1),
    (("--gres=gpu:a100:4", "--constraint=nvlink"), ("a100",), 4, 1),
    (("--gres=gpu:a100:4", "--gres=gpu:h100:2"), ("h100",), 2, 1),
    (("--gres=gpu:a100:4 # eight is too many",), ("a100",), 4, 1),
    (("--nodes=2-4", "--gres=gpu:a100:8"), ("a100",), 8, "?"),
    (("--gres=gpu:a100:$N",), ("a100:$N",), 1, 1),
    (("--mem=64G",), "?", "?", 1),
]


@pytest.mark.parametrize(("lines", "gpu", "per_node", "nodes"), HARDWARE)
def test_hardware_is_read_from_directives(lines: tuple[str, ...], gpu: object, per_node: object, nodes: object) -> None:
    target = read(job(*lines)).target
    assert (gpu, per_node, nodes) == (value(target.gpu), value(target.gpus_per_node), value(target.nodes))


def test_a_partition_means_a_gpu_only_where_the_configuration_says_so() -> None:
    script = job("--partition=big", "--gres=gpu:4")
    unknown = read(script).target.gpu.value
    assert isinstance(unknown, Unknown)
    assert "targets" in unknown.reason
    assert read(script, {"big": "A100-80GB"}).target.gpu.value == ("A100-80GB",)


def test_a_site_word_for_a_type_is_mapped_too() -> None:
    assert read(job("--gres=gpu:a100:4"), {"a100": "A100-80GB"}).target.gpu.value == ("A100-80GB",)


def test_directives_end_at_the_first_command_and_two_hashes_are_a_comment() -> None:
    script = "#!/bin/bash\n##SBATCH --nodes=9\n#SBATCH -N 2\n\n# words\ncd x\n#SBATCH --nodes=4\npython t.py\n"
    assert {name: arg.text for name, arg in directives("j", script.encode()).options.items()} == {"--nodes": "2"}


def test_submit_options_beat_directives() -> None:
    options = (
        Arg("--nodes", "command line", 1),
        Arg("4", "command line", 1),
        Arg("--gres=gpu:h100:8", "command line", 1),
    )
    target = read(job("--nodes=1", "--gres=gpu:a100:1"), options=options).target
    assert (target.gpu.value, target.gpus_per_node.value, target.nodes.value) == (("h100",), 8, 4)
    assert target.nodes.origin.path == "command line"


def test_a_step_narrows_the_allocation() -> None:
    launch = read(job("--nodes=4", "--gres=gpu:a100:8", command="srun --nodes=1 --gres=gpu:a100:2 torchrun t.py"))
    assert (launch.target.gpus_per_node.value, launch.target.nodes.value) == (2, 1)


def test_heterogeneous_jobs_have_no_one_gpu() -> None:
    script = job("--gres=gpu:a100:1", "hetjob", "--gres=gpu:h100:1")
    assert isinstance(read(script).target.gpu.value, Unknown)


PROCESSES = [
    ("srun python t.py", ("--ntasks-per-node=8", "--gres=gpu:a100:8", "-N 2"), 8, 2),
    ("python t.py", ("--ntasks-per-node=8", "--gres=gpu:a100:8"), 1, 1),
    ("srun torchrun --nnodes $SLURM_NNODES --nproc-per-node 4 t.py", ("-N 2", "--gres=gpu:a100:4"), 4, 2),
    ("srun torchrun --nproc_per_node=gpu t.py", ("--gres=gpu:a100:4",), 4, 1),
    ("torchrun t.py", ("--gres=gpu:a100:4",), 1, 1),
    ("GPUS=8\nsrun torchrun --nproc_per_node=$GPUS --nnodes=2 t.py", ("-N 2",), 8, 2),
    ("accelerate launch t.py", ("--gres=gpu:4",), 4, 1),
    ("N=$SLURM_NNODES\naccelerate launch --num_processes $((N*4)) --num_machines $N t.py", ("-N 4",), 4, 4),
    ("CUDA_VISIBLE_DEVICES=0,1 accelerate launch t.py", ("--gres=gpu:4",), 2, 1),
    ("deepspeed --num_gpus=2 t.py", ("--gres=gpu:4",), 2, 1),
    ("deepspeed --include localhost:0,1,2 t.py", ("--gres=gpu:4",), 3, 1),
    ("python -m torch.distributed.run --nproc_per_node 2 -m pkg.train", ("--gres=gpu:4",), 2, 1),
]  # fmt: skip


@pytest.mark.parametrize(("command", "lines", "per_node", "nodes"), PROCESSES)
def test_processes_come_from_the_launcher(command: str, lines: tuple[str, ...], per_node: int, nodes: int) -> None:
    processes = read(job(*lines, command=command)).processes
    assert (per_node, nodes) == (processes.per_node.value, processes.nodes.value)


DETECTED = [
    ("job.slurm", "#!/bin/bash\n#SBATCH -N 1\npython t.py\n", "slurm"),
    ("run", "#!/bin/bash\n#SBATCH -N 1\n", "slurm"),
    ("run.sh", "#!/usr/bin/env bash\npython t.py\n", "shell"),
    ("run", "#!/usr/bin/env -S bash -e\ntorchrun t.py\n", "shell"),
    ("build.sh", "#!/bin/bash\nmake\n", None),
    ("readme.md", "Put `#!/bin/bash` and python on top\n", None),
    ("train.py", "#!/usr/bin/env python\nimport torch\n", None),
]


@pytest.mark.parametrize(("path", "content", "expected"), DETECTED)
def test_files_are_told_apart_by_content(path: str, content: str, expected: str | None) -> None:
    reader = reader_for(path, content.encode())
    assert expected == (reader.format if reader else None)
