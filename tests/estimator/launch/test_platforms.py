"""Files that name hardware and start a command on it: Kubernetes, SkyPilot, dstack, Azure ML, Compose."""

from __future__ import annotations

import pytest

from estimator.launches import Launch, find
from estimator.sourced import Unknown
from tests.estimator.launch.trees import Tree

TRAIN = """\
import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=4)).train()
"""
PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: x}
spec:
  nprocPerNode: "8"
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      template:
        spec:
          nodeSelector:
            node.kubernetes.io/instance-type: p4d.24xlarge
          containers:
            - name: pytorch
              command: [torchrun, train.py]
              resources: {limits: {nvidia.com/gpu: 8}}
    Worker:
      <<: *replica
      replicas: 3
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: x}
spec:
  template:
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-A100-SXM4-80GB, NVIDIA-H100-80GB-HBM3]}
      containers:
        - name: main
          env: [{name: PROCS, value: "2"}]
          command: ["bash", "-c"]
          args:
            - |
              pip install -r requirements.txt
              torchrun --nproc_per_node $(PROCS) train.py
          resources:
            limits:
              nvidia.com/gpu: "2"
"""
SKY = """\
num_nodes: 2
resources:
  accelerators: {A100: 8}
envs:
  SCRIPT: train.py
run: |
  torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE $SCRIPT
"""
DSTACK = """\
type: task
nodes: 2
commands:
  - pip install torch
  - torchrun --nproc-per-node $DSTACK_GPUS_PER_NODE train.py
resources:
  gpu: A100:80GB:4
"""
AZURE = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: python train.py --epochs ${{inputs.epochs}}
code: src
environment: azureml:env:1
compute: azureml:my-cluster
inputs:
  epochs: 3
resources:
  instance_count: 2
distribution:
  type: pytorch
  process_count_per_instance: 4
"""
COMPOSE = """\
services:
  train:
    image: x
    command: torchrun --nproc-per-node 2 train.py
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 2, capabilities: [gpu]}]}}}
  db:
    image: postgres
"""


def only(path: str, text: str, labels: dict[str, str] | None = None) -> Launch:
    files: dict[str, str | bytes] = {path: text, "train.py": TRAIN, "src/train.py": TRAIN}
    found = find(Tree(files), [path], labels=labels)
    assert len(found.launches) == 1, (found.launches, found.skipped)
    return found.launches[0]


def test_a_pytorchjob_counts_master_and_workers() -> None:
    launch = only("k8s/job.yaml", PYTORCHJOB)
    target = launch.config.target
    assert (target.gpu.value, target.gpus_per_node.value, target.nodes.value) == (("p4d.24xlarge",), 8, 4)
    assert launch.config.processes.per_node.value == 8
    assert launch.run.micro_batch.value == 4


def test_every_gpu_of_an_affinity_is_meant_and_lines_are_the_files() -> None:
    launch = only("job.yaml", JOB)
    assert launch.config.target.gpu.value == ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3")
    assert (launch.config.processes.per_node.value, launch.config.target.gpus_per_node.value) == (2, 2)
    assert launch.config.line == JOB[: JOB.index("torchrun")].count("\n") + 1


def test_skypilot_means_the_40_gb_card_by_a100() -> None:
    launch = only("task.yaml", SKY)
    target = launch.config.target
    assert (target.gpu.value, target.gpus_per_node.value, target.nodes.value) == (("A100-40GB",), 8, 2)
    assert launch.run.num_gpus.value == 8


@pytest.mark.parametrize(
    ("gpu", "names", "count"),
    [
        ("A100:80GB:4", ("A100-80GB",), 4),
        ("80GB:A100", ("A100-80GB",), 1),
        ("H100:8", ("H100",), 8),
        ("A100,H100:2", ("A100", "H100"), 2),
        ("16GB..24GB", None, 1),
        ("nvidia:H100:1..8", ("H100",), None),
    ],
)
def test_dstack_reads_its_grammar(gpu: str, names: tuple[str, ...] | None, count: int | None) -> None:
    target = only(".dstack.yml", DSTACK.replace("A100:80GB:4", gpu)).config.target
    assert (None if isinstance(target.gpu.value, Unknown) else target.gpu.value) == names
    assert (target.gpus_per_node.value if target.gpus_per_node.is_known else None) == count


def test_azure_says_processes_and_the_configuration_what_a_cluster_is() -> None:
    launch = only("job.yml", AZURE)
    assert (launch.config.processes.per_node.value, launch.config.target.nodes.value) == (4, 2)
    assert isinstance(launch.config.target.gpu.value, Unknown)
    assert "my-cluster" in launch.config.target.gpu.value.reason
    mapped = only("job.yml", AZURE, {"my-cluster": "Standard_ND96isr_H100_v5"})
    assert mapped.config.target.gpu.value == ("Standard_ND96isr_H100_v5",)


def test_compose_counts_but_does_not_name_the_gpu() -> None:
    launch = only("docker-compose.yml", COMPOSE)
    assert launch.config.target.gpus_per_node.value == 2
    assert not launch.config.target.gpu.is_known


@pytest.mark.parametrize(
    "text",
    [
        JOB.replace("torchrun --nproc_per_node $(PROCS) train.py", "rm -rf / ; $(rm -rf ~)"),
        JOB.replace('nvidia.com/gpu: "2"', "nvidia.com/gpu: $GPUS"),
        PYTORCHJOB.replace("replicas: 3", "replicas: ${N}"),
        SKY.replace("{A100: 8}", "[[[[]]]]"),
        DSTACK.replace("A100:80GB:4", "{count: [1, 2], memory: {}}"),
        AZURE.replace("instance_count: 2", "instance_count: -1"),
        COMPOSE.replace("count: 2", "count: all"),
    ],
)
def test_odd_files_neither_crash_nor_invent(text: str) -> None:
    for path in ("a.yaml", "b.yml"):
        found = find(Tree({path: text, "train.py": TRAIN}), [path])
        assert all("Preflight" not in item.reason for item in found.skipped)


_POD = """\
apiVersion: v1
kind: Pod
spec:
  nodeSelector: {{{selector}}}
  containers:
    - command: [/bin/bash, -c, --]
      args: ["python train.py"]
      resources: {{limits: {{{limits}}}}}
"""


@pytest.mark.parametrize(
    ("selector", "limits", "gpu"),
    [
        ("nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "nvidia.com/gpu: 1", "40GB"),
        ("nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB-SHARED", "nvidia.com/gpu: 1", "NVIDIA-A100-SXM4-80GB"),
        (
            "cloud.google.com/gke-accelerator: nvidia-tesla-a100, cloud.google.com/gke-gpu-partition-size: 1g.5gb",
            "nvidia.com/gpu: 1",
            "5GB",
        ),
        ("nvidia.com/gpu.product: Tesla-T4", "nvidia.com/gpu: 1, nvidia.com/gpumem: 6144", "6.00GiB"),
    ],
)
def test_a_share_of_a_gpu_is_the_target_and_not_the_whole_card(selector: str, limits: str, gpu: str) -> None:
    launch = only("pod.yaml", _POD.format(selector=selector, limits=limits))
    assert launch.to_json()["target"] == {"gpu": gpu, "gpus_per_node": 1, "nodes": 1}
    assert launch.command == ("python", "train.py")
