"""Misspelt names on the command line: said once, with the name that was probably meant."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bot.cli.main import run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "job.slurm").write_text("#!/bin/bash\n#SBATCH --gres=gpu:t4:1\npython trian.py\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "traim.py"], "traim.py: no such file or directory; there is train.py"),
        (["check", "job.py"], "job.py: no such file or directory\n"),
        (["check", "src/"], "src/: no such file or directory"),
        (["estimate", "tran.py", "--gpu", "T4"], "tran.py: no such file; there is train.py"),
        (["launches", "job.slrm"], "job.slrm: no such file or directory; there is job.slurm"),
        (["gate", "--local", "--dry-run", "--", "sbatch", "jop.slurm"], "no such batch script; there is job.slurm"),
        (["explain", "PF999"], "no rule 'PF999': `preflight rules` lists them"),
        (["explain", "PF22"], "did you mean PF220 or PF221 or PF222?"),
        (["explain", "graph-retenton"], "did you mean graph-retention?"),
        (["check", "train.py", "--select", "PF999"], "`preflight rules` lists them"),
        (["estimate", "A100", "--model", "gpt2"], "A100: no such file; write --gpu A100"),
        (["estimate", "gpt2", "T4"], "gpt2 T4: no such file; write --model gpt2 --gpu T4"),
        (["estimate", "--model", "gpt2", "--seq-len", "2048"], "cannot run: 2048 tokens are beyond the 1024 positions"),
        (["estimate", "--model", "gpt2", "--gpu", "T5"], "nearest: t4"),
        (["estimate", "--model", "gpt2", "--gpu", "H10O"], "nearest: H100"),
    ],
)
def test_a_slip_is_said_once_with_what_was_meant(
    folder: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    shown = capsys.readouterr()
    assert said.casefold() in shown.err.casefold()
    assert "no such" not in shown.out


def test_a_script_that_is_missing_is_named_as_the_reason(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["sbatch", "job.slurm"], ["python", "trian.py"]):
        assert run(["gate", "--local", "--dry-run", "--", *words]) == 1
        assert "script trian.py is not in the repository; there is train.py" in capsys.readouterr().out


def test_a_batch_script_elsewhere_is_unknown_and_no_slip(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path_factory.mktemp("elsewhere") / "job.slurm"
    other.write_text("#!/bin/bash\n#SBATCH --gres=gpu:1\n")
    assert run(["gate", "--local", "--dry-run", "--", "sbatch", str(other)]) == 1
    assert "unknown" in capsys.readouterr().out
