"""`preflight check` against the shell, the disk and the tree: a word for the person, an exit code, no traceback."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from analyzer.api import Options
from bot.isolate.folder import Folder
from tests.bot.cli.test_check import SAFE, preflight


def _spoiled(words: list[str], where: str) -> tuple[int, str]:
    """The exit code and the errors of a run whose output goes to `where`, as a shell does it."""
    line = f"{shlex.join([sys.executable, '-I', '-m', 'preflight', *words])} {where}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("where", "code"),
    [
        (">&-", 1),  # nobody listens, and what is found is found
        ("2>&-", 1),
        ("<&-", 1),
        ("| head -c 1; exit ${PIPESTATUS[0]}", 1),
        ("> /dev/full", 2),
        (">&- 2>&-", 1),
    ],
)
@pytest.mark.parametrize("form", ["terminal", "json"])
def test_output_that_nobody_can_take_is_no_bug(where: str, code: int, form: str, tmp_path: Path) -> None:
    if "full" in where and not Path("/dev/full").exists():
        pytest.skip("a device of Linux")
    (tmp_path / "train.py").write_text(SAFE)
    words = ["check", str(tmp_path), "--no-cache", "--jobs", "1", "--fail-on", "note", "--format", form]
    seen, errors = _spoiled(words, where)
    assert (seen, "Traceback" in errors) == (code, False)
    assert "cannot be written" in errors or code != 2


def test_errors_that_nobody_can_take_change_no_exit_code() -> None:
    assert _spoiled(["check", "/nowhere"], "2>&-") == (2, "")
    assert _spoiled(["check", "/nowhere"], "2>/dev/full") == (2, "")


def test_a_path_is_one_line_whatever_it_holds(tmp_path: Path) -> None:
    (tmp_path / "a\nfake.py:1:1: error.py").write_text(SAFE)
    (tmp_path / "b\n.py").write_bytes(b"\xff")
    out = preflight("check", ".", cwd=tmp_path).stdout
    assert not any(line.startswith(("fake", ".py")) for line in out.splitlines())
    assert "a⟨U+000A⟩fake.py" in out


def test_what_is_no_file_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    (tmp_path / "circle.py").symlink_to("circle.py")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "train.py").write_text(SAFE)
    for word, reason in {
        "gone.py": "a link to nowhere.py, which is not there",
        "circle.py": "cannot be read: Too many levels of symbolic links",
        "pipe.py": "cannot be read: neither a file nor a directory",
        "": "an empty path: `.` means the working directory",
    }.items():
        done = preflight("check", word, cwd=tmp_path)
        assert (done.returncode, f"{word}: {reason}" in done.stderr) == (2, True)
    assert "1 warning in 1 file" in preflight("check", ".", cwd=tmp_path).stdout


@pytest.mark.parametrize("which", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_it_at_once_and_without_a_traceback(which: str, tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"m{number}.py").write_text(SAFE)
    words = [sys.executable, "-I", "-m", "preflight", "check", str(tmp_path), "--no-cache", "--jobs", "2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(2)
        process.send_signal(signal.Signals[which])
        out, errors = process.communicate(timeout=60)
    assert process.returncode in ((130, 0) if which == "SIGINT" else (-signal.SIGTERM, 0))
    assert "Traceback" not in errors
    assert (process.returncode == 0) is ("200 files" in out)


def test_a_full_disk_leaves_no_half_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, *_: Any) -> Any:
        os.close(handle)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    Folder(tmp_path).put("0123456789", b"a report")
    assert [place for place in tmp_path.rglob("*") if place.is_file()] == []


def test_files_that_go_away_are_named_and_cost_no_other(tmp_path: Path) -> None:
    """Between the listing and the reading, and between the finding and the fixing."""
    from bot.cli._fixing import fixed
    from bot.isolate.pool import Job, analyze_in_children

    (tmp_path / "train.py").write_text(SAFE)
    job = Job(root=tmp_path, paths=["gone.py", "train.py"], targets=["gone.py", "train.py"], options=Options())
    report = analyze_in_children(job, 1)
    assert [(item.path, item.reason) for item in report.skipped] == [("gone.py", "cannot be read")]
    assert [item.path for item in report.findings] == ["train.py"]
    (tmp_path / "train.py").unlink()
    assert fixed(job, report, 1, with_unsafe=True).after == {}
