"""The command on a project of a hundred files, first without reports of an earlier run and then with them.

``PREFLIGHT_PROJECT`` names the folder (else: the first hundred programs of our own cases).
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.robustness import programs

NUM_FILES = 100
REPEATS = 3


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


def project(folder: Path) -> str:
    """Fill a folder with the files; what they are."""
    given = os.environ.get("PREFLIGHT_PROJECT")
    if given is not None:
        shutil.copytree(given, folder, dirs_exist_ok=True)
        return f"`{Path(given).name}`"
    for number, source in enumerate(programs([])[:NUM_FILES]):
        (folder / f"program_{number:03}.py").write_bytes(source)
    return "our own cases"


def run() -> str:
    """Markdown."""
    with tempfile.TemporaryDirectory() as tree, tempfile.TemporaryDirectory() as cache:
        label = project(Path(tree))
        num_files = sum(1 for _ in Path(tree).rglob("*.py"))
        cold = timed(Path(tree), Path(cache))
        warm = min((timed(Path(tree), Path(cache)) for _ in range(REPEATS)), key=lambda each: each[1])
    return f"""## Warm cache

`preflight check` of {num_files} files, {label}, whole process, the processes it starts included.

| | seconds | of processors |
| --- | ---: | ---: |
| first run | {cold[0]:.2f} | {cold[1]:.2f} |
| again, nothing changed | {warm[0]:.2f} | {warm[1]:.2f} |
"""
