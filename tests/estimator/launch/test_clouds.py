"""Vertex AI, Determined, Ray jobs, and accelerate's parallelism."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.launches import find
from tests.estimator.launch.trees import Tree

TRAIN = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader([], batch_size=4, shuffle=True):
    model(**batch).loss.backward()
    optimizer.step()
"""
VERTEX = """\
workerPoolSpecs:
  - machineSpec: {machineType: n1-standard-8, acceleratorType: NVIDIA_TESLA_V100, acceleratorCount: 2}
    replicaCount: 1
    containerSpec:
      imageUri: x
      command: [torchrun, --nproc-per-node=2]
      args: [train.py]
  - machineSpec: {machineType: n1-standard-8, acceleratorType: NVIDIA_TESLA_V100, acceleratorCount: 2}
    replicaCount: 3
    containerSpec: {imageUri: x}
"""
DETERMINED = """\
name: x
entrypoint: >-
  python3 -m determined.launch.torch_distributed
  python3 train.py
resources: {slots_per_trial: 8, resource_pool: big}
searcher: {name: single, metric: loss}
"""


def shown(files: dict[str, str], path: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    (launch,) = find(Tree({"train.py": TRAIN, **files}), [path], labels=labels).launches
    entry = launch.to_json()
    return {**entry["run_config"], **entry["target"]}


def test_the_pools_of_a_vertex_job_are_its_nodes() -> None:
    run = shown({"job.yaml": VERTEX}, "job.yaml")
    assert (run["gpu"], run["gpus_per_node"], run["num_gpus"], run["micro_batch"]) == ("NVIDIA_TESLA_V100", 2, 2, 4)
    assert run["nodes"] == 4


def test_a_machine_type_may_hold_its_gpus() -> None:
    text = VERTEX.replace("n1-standard-8, acceleratorType: NVIDIA_TESLA_V100, acceleratorCount: 2", "a2-highgpu-1g")
    run = shown({"job.yaml": text.replace("nproc-per-node=2", "nproc-per-node=1")}, "job.yaml")
    assert (run["gpu"], run["gpus_per_node"]) == ("NVIDIA A100 40GB SXM", 1)


def test_a_python_package_runs_its_module() -> None:
    text = VERTEX.partition("    containerSpec")[0] + "    pythonPackageSpec: {pythonModule: train, args: [--x, '1']}\n"
    assert shown({"job.yaml": text}, "job.yaml")["micro_batch"] == 4


def test_gcloud_submits_a_vertex_job() -> None:
    go = "#!/bin/bash\ngcloud ai custom-jobs create --region=x --config=job.yaml\n"
    assert shown({"go.sh": go, "job.yaml": VERTEX}, "go.sh")["gpus_per_node"] == 2


def test_slots_are_processes_and_the_pool_is_mapped() -> None:
    run = shown({"exp.yaml": DETERMINED}, "exp.yaml", {"big": "A100-80GB"})
    assert (run["gpu"], run["gpus_per_node"], run["num_gpus"], run["micro_batch"]) == ("A100-80GB", 8, 8, 4)
    assert shown({"exp.yaml": DETERMINED}, "exp.yaml")["gpu"] is None


def test_an_entrypoint_without_a_launch_layer_is_one_process() -> None:
    text = DETERMINED.replace("python3 -m determined.launch.torch_distributed\n  ", "")
    assert shown({"exp.yaml": text}, "exp.yaml")["num_gpus"] == 1


@pytest.mark.parametrize(
    "command",
    ["ray job submit --working-dir . -- python train.py", "ray job submit --address=x -- torchrun train.py"],
)
def test_a_ray_job_runs_its_entrypoint(command: str) -> None:
    assert shown({"go.sh": f"#!/bin/bash\n{command}\n"}, "go.sh")["micro_batch"] == 4


def test_parallel_sizes_of_accelerate() -> None:
    conf = "distributed_type: FSDP\nnum_processes: 8\nparallelism_config:\n  parallelism_config_tp_size: 2\n"
    conf += "  parallelism_config_sp_size: 4\n"
    go = "#!/bin/bash\naccelerate launch --config_file conf.yaml train.py\n"
    run = shown({"go.sh": go, "conf.yaml": conf}, "go.sh")
    assert (run["tp_degree"], run["sp_degree"], run["sharding"]) == (2, 4, "fsdp")


@pytest.mark.parametrize(
    "text", ["workerPoolSpecs: [", "workerPoolSpecs: {}", "entrypoint: [a]\nsearcher: 1", "entrypoint:"]
)
def test_broken_files_have_no_launches(text: str) -> None:
    assert find(Tree({"x.yaml": text}), ["x.yaml"]).launches == ()
