"""A tree under analysis may hold modules with our names; none of them may ever run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_NAMES = ("bot", "analyzer", "estimator", "yaml", "sitecustomize", "usercustomize", "libcst", "json", "argparse")
_COMMANDS = (
    ("check", "."),
    ("rules",),
    ("explain", "PF101"),
    ("gpus",),
    ("estimate", "--params", "1B", "--gpu-memory", "80GiB"),
    ("--version",),
    ("launches", "."),
)
_STARTS = {
    "console script": [str(Path(sys.executable).with_name("preflight"))],
    "isolated module": [sys.executable, "-I", "-m", "preflight"],
}


def _plant(folder: Path) -> Path:
    """Modules that leave a mark when they are imported."""
    mark = folder / "ran"
    bad = f"open({str(mark)!r}, 'a').write(__name__ + chr(10))\n"
    for name in _NAMES:
        (folder / f"{name}.py").write_text(bad)
    for name in ("bot", "analyzer", "estimator"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(bad)
        (folder / name / "cli.py").write_text(bad)
    for number in range(6):  # enough files for child processes
        (folder / f"train_{number}.py").write_text("import torch\n")
    return mark


@pytest.mark.parametrize("start", sorted(_STARTS))
@pytest.mark.parametrize("command", _COMMANDS, ids=lambda command: command[0])
def test_only_our_code_runs(tmp_path: Path, start: str, command: tuple[str, ...]) -> None:
    mark = _plant(tmp_path)
    done = subprocess.run(
        [*_STARTS[start], *command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert not mark.exists(), mark.read_text()
    assert done.returncode in {0, 1}, done.stderr


def test_python_path_does_not_lead_our_own_process_astray(tmp_path: Path) -> None:
    mark = _plant(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-I", "-m", "preflight", "check", "."],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert not mark.exists(), mark.read_text()
    assert done.returncode == 0, done.stderr
