"""A pull request that changes one configuration file, one default or one resource: what the check would say."""

from __future__ import annotations

import time

import pytest

from estimator.api import affected
from estimator.launches import Launch, find
from estimator.sourced import Unknown
from tests.estimator.launch.trees import Tree

TRAIN = """\
import argparse
import torch
import yaml
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--config", default="configs/model.yaml")
parser.add_argument("--batch-size", type=int, default=2)
args = parser.parse_args()
with open(args.config) as stream:
    settings = yaml.safe_load(stream)
config = LlamaConfig(hidden_size=settings["model"]["hidden"], num_hidden_layers=settings.get("layers", 2))
model = LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader([], batch_size=args.batch_size, shuffle=True):
    model(**batch).loss.backward()
    optimizer.step()
"""
FILES: dict[str, str | bytes] = {
    "train.py": TRAIN,
    "configs/model.yaml": "model:\n  hidden: 8192\nlayers: 24\n",
    "job.slurm": "#!/bin/bash\n#SBATCH --gres=gpu:h100:1\nsrun python train.py\n",
    "README.md": "hello\n",
}
HEAD = Tree(dict(FILES))


def launch_of(files: dict[str, str | bytes]) -> Launch:
    (launch,) = find(Tree(files), ["job.slurm"]).launches
    return launch


def test_a_model_built_from_a_file_has_its_widths_and_lines() -> None:
    launch = launch_of(dict(FILES))
    arch = launch.run.arch
    assert isinstance(arch.value, dict)
    assert (arch.value["hidden"], arch.value["layers"], arch.value["ffn"]) == (8192, 24, 11008)
    assert (arch.origin.path, arch.origin.line) == ("configs/model.yaml", 2)
    assert launch.run.precision.value == "fp32"


def test_only_the_hidden_size_in_a_yaml_moves_the_launch() -> None:
    base = HEAD.with_edit("configs/model.yaml", "hidden: 8192", "hidden: 1024")
    (impact,) = affected(base, HEAD, ["configs/model.yaml"])
    assert impact.base is not None
    assert impact.head is not None
    assert (impact.base.verdict, impact.head.verdict) == ("fits", "exceeds")
    assert "configs/model.yaml:2" in impact.moved[0]


def test_only_an_argparse_default_moves_the_launch() -> None:
    base = HEAD.with_edit("train.py", "type=int, default=2", "type=int, default=1")
    (impact,) = affected(base, HEAD, ["train.py"])
    assert impact.moved[0].startswith("micro_batch 1 -> 2: train.py:9 ")


def test_only_the_gpu_moves_the_launch() -> None:
    base = HEAD.with_edit("job.slurm", "gpu:h100:1", "gpu:b200:1")
    (impact,) = affected(base, HEAD, ["job.slurm"])
    assert impact.moved[0].startswith("gpu b200 -> h100: job.slurm:2 ")


def test_a_new_launch_of_an_unknown_model_is_unknown_and_blocks_nothing() -> None:
    script = TRAIN.replace("LlamaForCausalLM(config)", "build(config)").replace("LlamaConfig(", "make(")
    head = Tree(
        {**FILES, "new.py": script, "new.slurm": "#!/bin/bash\n#SBATCH --gres=gpu:h100:1\nsrun python new.py\n"}
    )
    (impact,) = affected(HEAD, head, ["new.py", "new.slurm"])
    assert impact.base is None
    assert impact.head is None or impact.head.verdict == "unknown"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("README.md", "hello", "hello you"),
        ("configs/model.yaml", "model:", "# widths\nmodel:"),
        ("train.py", "import yaml\n", "import yaml  # settings\n"),
    ],
)
def test_it_is_silent_where_nothing_moved(path: str, old: str, new: str) -> None:
    assert affected(HEAD, HEAD.with_edit(path, old, new), [path]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b, *b]\nmodel: {hidden: *c}\n",
        "model: &m {hidden: *m}\n",
        "model: {hidden: !!python/object/apply:os.system [ls]}\n",
        "[" * 20000,
        "x: 1\n" * 60000,
        "\x00",
        "",
    ],
)
def test_hostile_files_leave_the_model_unknown(text: str) -> None:
    started = time.perf_counter()
    found = find(Tree({**FILES, "configs/model.yaml": text}), ["job.slurm"]).launches
    assert all(isinstance(launch.run.arch.value, Unknown) or launch.run.arch.value == {} for launch in found)
    assert time.perf_counter() - started < 20


@pytest.mark.parametrize("name", ["../secret.yaml", "/etc/passwd", "configs/../../secret.yaml", "configs/missing.yaml"])
def test_only_files_of_the_tree_are_read(name: str) -> None:
    launch = launch_of({**FILES, "train.py": TRAIN.replace("configs/model.yaml", name), "secret.yaml": "model: {}"})
    assert isinstance(launch.run.arch.value, Unknown)


def test_two_thousand_launch_files_are_bounded() -> None:
    jobs: dict[str, str | bytes] = {f"jobs/{number}.slurm": str(FILES["job.slurm"]) for number in range(2000)}
    base = Tree({**FILES, "README.md": "other\n", **jobs})
    started = time.perf_counter()
    assert affected(base, Tree({**FILES, **jobs}), ["README.md"]) == ()
    assert time.perf_counter() - started < 60


def test_what_is_written_beats_the_trainers_default_of_recomputation() -> None:
    text = """\
from peft import prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = prepare_model_for_kbit_training(AutoModelForCausalLM.from_pretrained("gpt2"))
Trainer(model=model, args=TrainingArguments("out")).train()
"""
    assert launch_of({**FILES, "train.py": text}).run.grad_checkpointing.value == "full"
    off = text.replace('("gpt2"))', '("gpt2"), use_gradient_checkpointing=False)')
    assert launch_of({**FILES, "train.py": off}).run.grad_checkpointing.value == "none"
