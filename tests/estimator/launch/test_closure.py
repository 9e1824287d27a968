"""Which files a launch depends on, through the real import scan."""

from __future__ import annotations

import pytest

from estimator.api import affected
from estimator.launches import read
from estimator.resolve.closure import closure
from tests.estimator.launch.trees import Tree

JOB = (
    "#!/bin/bash\n#SBATCH --gres=gpu:a100-40gb:1\nsource env.sh\nsrun torchrun train.py --config conf/run.yaml $FLAGS\n"
)
TRAIN = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

from pkg.settings import BATCH, MODEL
from pkg import optim


def main():
    model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.bfloat16)
    optimizer = optim.build(model)
    for batch in DataLoader([], batch_size=BATCH, shuffle=True):
        model(**batch).loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""
FILES: dict[str, str | bytes] = {
    "jobs/train.slurm": JOB,
    "env.sh": 'FLAGS="--x 1"\n',
    "train.py": TRAIN,
    "conf/run.yaml": "a: 1\n",
    "pkg/__init__.py": "",
    "pkg/settings.py": 'BATCH = 2\nMODEL = "meta-llama/Llama-2-7b-hf"\n',
    "pkg/optim.py": "import torch\n\n\ndef build(model):\n    return torch.optim.AdamW(model.parameters())\n",
    "pkg/unused.py": "import torch\n",
}


def test_the_closure_is_script_imports_sourced_scripts_and_named_configs() -> None:
    tree = Tree(FILES)
    (config,) = read(tree, "jobs/train.slurm")
    expected = {"jobs/train.slurm", "env.sh", "train.py", "conf/run.yaml", "pkg/settings.py", "pkg/optim.py"}
    found = closure(tree, config)
    assert expected <= found
    assert "pkg/unused.py" not in found


def test_a_constant_in_an_imported_module_moves_the_launch() -> None:
    base = Tree(FILES).with_edit("pkg/settings.py", "BATCH = 2", "BATCH = 1")
    (impact,) = affected(base, Tree(FILES), ["pkg/settings.py"])
    assert impact.path == "jobs/train.slurm"
    assert impact.moved[0].startswith("micro_batch 1 -> 2: pkg/settings.py:1 ")


def test_an_optimizer_built_in_a_helper_is_seen() -> None:
    base = Tree(FILES).with_edit("pkg/optim.py", "AdamW(", "SGD(")
    (impact,) = affected(base, Tree(FILES), ["pkg/optim.py"])
    assert impact.moved[0].startswith("optimizer sgd -> adamw: pkg/optim.py:5 ")


def test_a_module_nobody_imports_reaches_no_launch() -> None:
    base = Tree(FILES).with_edit("pkg/unused.py", "import torch", "import torch as t")
    assert affected(base, Tree(FILES), ["pkg/unused.py"]) == ()


def test_a_change_that_reaches_very_many_launches_says_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("estimator.affected.MAX_LAUNCHES", 2)
    jobs = {f"jobs/{index}.slurm": JOB for index in range(4)}
    found = affected(Tree({}), Tree({**FILES, **jobs}), ["train.py"])
    assert [impact.path for impact in found] == ["jobs/0.slurm", "jobs/1.slurm"]
    assert [note.path for note in found.notes] == ["jobs/2.slurm"]
