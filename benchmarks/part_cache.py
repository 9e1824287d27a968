"""The command on projects of about a hundred files: without reports of an earlier run, with them, and after an edit.

``PREFLIGHT_PROJECT`` names the folders (else: the first hundred programs of our own cases).
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.robustness import programs

NUM_FILES = 100
REPEATS = 3
NUM_EDITS = 9
MORE = b"\n\ndef added(x):\n    return x + 1\n"


def timed(folder: Path, cache: Path) -> tuple[float, float]:
    """Seconds on the wall and of processors of one run of the command, its start included."""
    env = {"PATH": os.defpath, "HOME": "/nonexistent", "LANG": "C.UTF-8", "XDG_CACHE_HOME": str(cache)}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = [sys.executable, "-I", "-m", "preflight", "check", "."]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, check=False)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.decode(errors="replace"))
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def projects(folder: Path) -> list[Path]:
    """The folders, made where none is given."""
    if given := os.environ.get("PREFLIGHT_PROJECT"):
        return [Path(word) for word in given.split(os.pathsep)]
    made = folder / "our own cases"
    made.mkdir()
    for number, source in enumerate(programs([])[:NUM_FILES]):
        (made / f"program_{number:03}.py").write_bytes(source)
    return [made]


def row(given: Path) -> str:
    """One project. What is edited is every so many-th of its files, one after the other."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as around:
        tree = Path(shutil.copytree(given, Path(around) / "tree", ignore=shutil.ignore_patterns(".git")))
        files = sorted(tree.rglob("*.py"))
        cold = timed(tree, Path(cache))
        warm = min((timed(tree, Path(cache)) for _ in range(REPEATS)), key=lambda each: each[1])
        edited = []
        for file in files[:: max(1, len(files) // NUM_EDITS)][:NUM_EDITS]:
            file.write_bytes(file.read_bytes() + MORE)
            edited.append(timed(tree, Path(cache)))
    half = [statistics.median(each[kind] for each in edited) for kind in (0, 1)]
    times = (f"{wall:.2f} ({cpu:.2f})" for wall, cpu in (cold, warm, half, max(edited, key=lambda each: each[1])))
    return f"| `{given.name}` | {len(files)} | {' | '.join(times)} |"


def run() -> str:
    """Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        rows = "\n".join(map(row, projects(Path(folder))))
    load = os.getloadavg()[1]
    return f"""## Warm cache

`preflight check .`, whole process, the processes it starts included: seconds on the wall (and of processors). A
function is added at the end of one file after another, {NUM_EDITS} of them. Load average while it ran: {load:.0f}.

| project | files | first run | again, nothing changed | after an edit, median | slowest |
| --- | ---: | ---: | ---: | ---: | ---: |
{rows}
"""
