"""A child that dies or hangs costs its file only. The children are real; they are told to die by their input."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from analyzer.api import Options
from bot.isolate import pool
from bot.isolate.files import DiskFiles

_CHILD = """
import io, json, os, signal, sys, time
text = sys.stdin.read()
job = json.loads(text)
for target in job["targets"]:
    name = os.path.basename(target)
    if name.startswith("segfault"): os.kill(os.getpid(), signal.SIGSEGV)
    if name.startswith("hang"): time.sleep(60)
    if name.startswith("raise"): raise ValueError("broken")
sys.stdin = io.StringIO(text)
from bot.isolate.child import main
main()
"""

BUGGY = "import torch\nout = []\ndef f(model: torch.nn.Module, loader):\n    for x in loader:\n        out.append(model(x))\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("segfault.py", "the analysis process died (SIGSEGV)"),
        ("hang.py", "the analysis took more than 3 s"),
        ("raise.py", "the analysis process failed: ValueError: broken"),
    ],
)
def test_the_guilty_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str) -> None:
    monkeypatch.setattr(pool, "COMMAND", (sys.executable, "-I", "-c", _CHILD))
    targets = ["a.py", "b.py", name, "c.py", "d.py"]
    for target in targets:
        (tmp_path / target).write_text("import torch\n")
    report = pool.check(DiskFiles(str(tmp_path), targets), targets, Options(), jobs=2, seconds=3)
    assert [(item.path, item.reason) for item in report.skipped] == [(name, reason)]
    assert report.num_files == 5


def test_a_child_reports_what_a_run_in_this_process_reports(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BUGGY)
    files = DiskFiles(str(tmp_path), ["a.py"])
    here = pool.check(files, ["a.py"], Options(), jobs=1)
    there = pool.survive(files, ["a.py"], Options(), seconds=60)
    assert here == there
