"""A tree under analysis may hold modules with our names and with those of what we import; none of them may ever run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_NAMES = ("preflight", "yaml", "sitecustomize", "usercustomize", "json", "argparse", "tomli", "tree_sitter")
_PACKAGES = ("bot", "analyzer", "estimator", "libcst", "flask", "github")
_STARTS = {
    "console script": [str(Path(sys.executable).with_name("preflight"))],
    "isolated module": [sys.executable, "-I", "-m", "preflight"],
}
_TRAIN = """\
import bot, analyzer, estimator, yaml, libcst
import torch
from torch import nn

outputs = []


def collect(model: nn.Module, loader: torch.utils.data.DataLoader) -> None:
    for x in loader:
        outputs.append(model(x))


collect(nn.Linear(2, 2), torch.utils.data.DataLoader([]))
"""
_GENERATE = """\
import estimator
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2")
"""
_LAUNCH = """\
#!/bin/bash
#SBATCH --gres=gpu:a100:1
python generate.py
"""
_ANSWERS = {
    ("check", "."): "train.py:10:24: error PF101",
    ("check", ".", "--jobs", "3", "--format", "sarif"): '"ruleId": "PF101"',
    ("check", ".", "--diff", "--unsafe"): "+        outputs.append(model(x).detach())",
    ("review", "--base", "main", "--head", "change"): "graph-retention",
    ("launches", "--format", "json"): '"model": "gpt2"',
    ("estimate", "launch.slurm", "--format", "json"): '"gpt2"',
    ("estimate", "--params", "1B", "--gpu-memory", "80GiB", "--format", "json"): '"peak_gib"',
    ("rules",): "PF101  graph-retention",
    ("explain", "TG001"): "PF101 graph-retention",
    ("report", "train.py:10"): "PF101",
    ("gate", "--local", "--dry-run", "--", "sbatch", "launch.slurm"): "launch.slurm:3: ",
    ("gate-token", "a", "--installation", "7"): "pfg_",
    ("gpus", "a100"): "A100",
    ("instances", "p4d"): "p4d",
    ("models", "llama"): "lama",
    ("--version",): "preflight 0",
    ("--help",): "commands:",
}


def _git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=Dana", "-c", "user.email=dana@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose modules leave a mark beside it when they are imported."""
    folder = tmp_path_factory.mktemp("hostile") / "tree"
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    bad = f"open({str(_mark(folder))!r}, 'a').write(__name__ + chr(10))\n"
    for name in _NAMES:
        (folder / f"{name}.py").write_text(bad)
    for name in _PACKAGES:
        (folder / name).mkdir()
        for file in ("__init__.py", "__main__.py", "api.py", "cli.py"):
            (folder / name / file).write_text(bad)
    (folder / "launch.slurm").write_text(_LAUNCH)
    (folder / "generate.py").write_text(_GENERATE)
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "base")
    _git(folder, "checkout", "-q", "-b", "change")
    (folder / "train.py").write_text(_TRAIN)
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "change")
    return folder


def _mark(folder: Path) -> Path:
    return folder.parent / "ran"


@pytest.mark.parametrize("start", sorted(_STARTS))
@pytest.mark.parametrize("command", sorted(_ANSWERS), ids=" ".join)
def test_only_our_code_runs_and_answers(tree: Path, start: str, command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [*_STARTS[start], *command], cwd=tree, capture_output=True, text=True, check=False, timeout=200
    )
    assert not _mark(tree).exists(), _mark(tree).read_text()
    assert done.returncode in {0, 1}, done.stderr
    assert _ANSWERS[command] in done.stdout


def test_every_command_is_tried() -> None:
    """Servers, the demo and what asks a Redis or GitHub have tests of their own; `docs` is for our own checkout."""
    from bot.cli.main import command_names

    tried = {command[0].replace("-", "_") for command in _ANSWERS}
    assert set(command_names()) - tried <= {"serve", "worker", "demo", "docs", "config", "stats", "doctor", "register"}


def test_python_path_does_not_lead_our_own_process_astray(tree: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONSTARTUP": str(tree / "bot" / "cli.py")}
    done = subprocess.run(
        [sys.executable, "-I", "-m", "preflight", "check", "train.py"],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert not _mark(tree).exists(), _mark(tree).read_text()
    assert "train.py:10:24: error PF101" in done.stdout, done.stderr
