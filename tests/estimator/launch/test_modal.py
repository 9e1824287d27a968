"""Modal apps, Axolotl's cloud files, and commands that submit files of the tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from estimator.launch.base import reader_for
from estimator.launches import Found, find, read
from estimator.resolve.closure import closure
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
APP = """\
import os
import subprocess
import modal
import torch

app = modal.App("x")
GPU = os.environ.get("GPU_CONFIG", "a100:2")


def run(cmd):
    subprocess.call(cmd.split())


@app.function(gpu=GPU, timeout=60)
def train():
    cmd = f"torchrun --nproc-per-node {torch.cuda.device_count()} train.py"
    run(cmd)


@app.function()
def other():
    print("python train.py")
"""
RECIPE = """\
base_model: gpt2
datasets: []
micro_batch_size: 3
sequence_len: 1024
adapter: lora
lora_r: 8
deepspeed: deepspeed_configs/zero2.json
bf16: auto
"""


def shown(found: Found) -> list[dict[str, Any]]:
    return [{**entry["run_config"], **entry["target"]} for entry in (item.to_json() for item in found.launches)]


def test_a_function_starts_a_command_on_the_gpus_of_its_decorator() -> None:
    tree = Tree({"app.py": APP, "train.py": TRAIN})
    (run,) = shown(find(tree, ["app.py"]))
    assert (run["gpu"], run["gpus_per_node"], run["nodes"], run["num_gpus"]) == ("A100-40GB", 2, 1, 2)
    assert (run["model"], run["micro_batch"]) == ("gpt2", 4)
    (config,) = read(tree, "app.py")
    assert config.target.gpu.origin.line == 7
    assert "train.py" in closure(tree, config)


@pytest.mark.parametrize(
    ("gpu", "names", "count"),
    [
        ('"H100"', "H100-80GB", 1),
        ('"A100-80GB:4"', "A100-80GB", 4),
        ('["H100", "A100-80GB"]', ["H100-80GB", "A100-80GB"], 1),
        ('modal.gpu.A100(count=8, size="80GB")', "A100-80GB", 8),
        ('"any"', None, None),
        ("pick()", None, None),
    ],
)
def test_every_way_to_ask_for_a_gpu(gpu: str, names: object, count: int | None) -> None:
    text = APP.replace("gpu=GPU", f"gpu={gpu}")
    (run,) = shown(find(Tree({"app.py": text, "train.py": TRAIN}), ["app.py"]))
    assert (run["gpu"], run["gpus_per_node"]) == (names, count)


@pytest.mark.parametrize(
    "start",
    [
        'subprocess.run(["python", "train.py", "--x", str(1)], check=True)',
        'subprocess.run(args=[sys.executable, "-m", "train"])',
        'os.system("python train.py")',
        'run(parse_args(["--nproc-per-node=1", "train.py"]))',
        'subprocess.Popen(" ".join(["python", "train.py"]), shell=True)',
        'subprocess.run(["bash", "go.sh"])',
    ],
)
def test_every_way_to_start_a_command(start: str) -> None:
    text = APP.replace("    run(cmd)\n", f"    {start}\n")
    tree = Tree({"app.py": text, "train.py": TRAIN, "go.sh": "#!/bin/sh\npython train.py\n"})
    (run,) = shown(find(tree, ["app.py"]))
    assert (run["gpu"], run["micro_batch"]) == ("A100-40GB", 4)


def test_a_function_may_train_itself() -> None:
    body = "\n".join(f"    {line}" for line in TRAIN.splitlines())
    text = f'import modal\napp = modal.App()\n\n\n@app.function(gpu="L40S")\ndef train():\n{body}\n'
    (run,) = shown(find(Tree({"app.py": text}), ["app.py"]))
    assert (run["gpu"], run["model"], run["micro_batch"], run["sharding"]) == ("L40S", "gpt2", 4, "none")


def test_a_command_line_may_name_the_configuration_that_the_app_writes() -> None:
    text = APP.replace("torchrun --nproc-per-node", "accelerate launch --num_processes").replace(
        "train.py", "-m axolotl.cli.train ./config.yml"
    )
    tree = Tree({"src/app.py": text, "conf/a.yml": RECIPE})
    (alone,) = shown(find(tree, ["src/app.py"]))
    assert (alone["gpu"], alone["micro_batch"]) == ("A100-40GB", None)
    (run,) = shown(find(tree, command="modal run --detach src.app --config=conf/a.yml"))
    assert (run["gpu"], run["micro_batch"], run["seq_len"], run["sharding"]) == ("A100-40GB", 3, 1024, "zero2")


def test_hidden_parts_of_a_command_are_unknown() -> None:
    text = APP.replace("{torch.cuda.device_count()} train.py", "{pick()} train.py")
    (run,) = shown(find(Tree({"app.py": text, "train.py": TRAIN}), ["app.py"]))
    assert run["num_gpus"] == 2  # as many as the container has: one process per GPU is all that can run


@pytest.mark.parametrize("text", ["import modal\n@app.function(gpu=", "import modal\n" + "(" * 5000 + "gpu"])
def test_broken_programs_have_no_launches(text: str) -> None:
    assert find(Tree({"a.py": text}), ["a.py"]).launches == ()


CLOUD = "project_name: x\nvolumes: []\ngpu: h100\ngpu_count: 2\ntimeout: 10\n"


def test_a_cloud_file_is_the_hardware_of_an_axolotl_run() -> None:
    tree = Tree({"cloud.yaml": CLOUD, "run.yaml": RECIPE})
    (run,) = shown(find(tree, command="axolotl train run.yaml --cloud cloud.yaml"))
    assert (run["gpu"], run["gpus_per_node"], run["nodes"], run["num_gpus"]) == ("H100-80GB", 2, 1, 2)
    assert run["micro_batch"] == 3
    (alone,) = shown(find(tree, ["cloud.yaml"]))
    assert (alone["gpu"], alone["gpus_per_node"], alone["micro_batch"]) == ("H100-80GB", 2, None)


def test_a_provider_with_a_gpu_and_commands_is_no_cloud_file() -> None:
    reader = reader_for("x.yaml", b"provider: x\ngpu: h100\nproject_name: y\ncommand: python train.py\n")
    assert reader is None or reader.format != "axolotl-cloud"


SKY = "resources:\n  accelerators: A100:8\nrun: |\n  torchrun --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE train.py\n"
KUBE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: x}
spec:
  template:
    spec:
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
      containers:
        - {name: a, command: [python, train.py], resources: {limits: {nvidia.com/gpu: 1}}}
"""
SLURM = "#!/bin/bash\n#SBATCH --gres=gpu:v100:2\nsrun python train.py\n"
SUBMITTED: Mapping[str, str] = {
    "train.py": TRAIN,
    "task.yaml": SKY,
    "job.yaml": KUBE,
    "job.slurm": SLURM,
    "app.py": APP,
}


@pytest.mark.parametrize(
    ("command", "gpu", "count", "nodes"),
    [
        ("sky launch -c box task.yaml", "A100-40GB", 8, 1),
        ("sky launch --gpus H100:4 --num-nodes 2 task.yaml", "H100", 4, 2),
        ("sky jobs launch --gpus=L4 task.yaml -y", "L4", 1, 1),
        ("kubectl apply -f job.yaml", "L4", 1, 1),
        ("kubectl create -n x --filename=job.yaml", "L4", 1, 1),
        ("sbatch --gres=gpu:h100:1 job.slurm", "h100", 1, 1),
        ("sbatch job.slurm", "v100", 2, 1),
        ("modal run app.py::train", "A100-40GB", 2, 1),
    ],
)
def test_a_submit_command_means_what_its_file_says(command: str, gpu: str, count: int, nodes: int) -> None:
    tree = Tree({**SUBMITTED, "go.sh": f"#!/bin/bash\n# go\n{command}\n"})
    (launch,) = find(tree, ["go.sh"]).launches
    (run,) = shown(find(tree, ["go.sh"]))
    assert (run["gpu"], run["gpus_per_node"], run["nodes"], run["micro_batch"]) == (gpu, count, nodes, 4)
    assert (launch.config.path, launch.config.line) == ("go.sh", 3)
    assert "train.py" in closure(tree, launch.config)
    assert len(closure(tree, launch.config)) >= 3


def test_files_that_submit_each_other_end() -> None:
    tree = Tree(
        {"a.sh": "#!/bin/bash\nsbatch b.slurm\n", "b.slurm": "#!/bin/bash\n#SBATCH -N 1\nsbatch a.sh\npython x.py\n"}
    )
    found = find(tree, ["a.sh"])
    assert len(found.launches) <= 4


def test_a_file_outside_the_tree_is_not_submitted() -> None:
    assert find(Tree({"go.sh": "#!/bin/bash\nsky launch ../../etc/task.yaml\n"}), ["go.sh"]).launches == ()
