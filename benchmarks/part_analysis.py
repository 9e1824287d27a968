"""Analysis time against bare `libcst.parse_module` on the same files, in one process."""

from __future__ import annotations

import gc
import os
import sysconfig
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import libcst as cst

from analyzer.api import Options, analyze
from analyzer.nesting import too_deep
from analyzer.screen import may_matter

MAX_FILES = 25
"""Keeps the benchmark below a minute; ``PREFLIGHT_BENCH_FILES`` raises it."""
REPEATS = 1
CASES_DIR = Path(__file__).resolve().parents[1] / "tests" / "cases"


class Corpus:
    """Files in memory, so that the disk is not measured."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def paths(self) -> Collection[str]:
        """Every path."""
        return self.files.keys()

    def read(self, path: str) -> bytes | None:
        """The bytes of one file."""
        return self.files.get(path)


def corpus() -> tuple[str, dict[str, bytes]]:
    """``PREFLIGHT_CORPUS`` (a folder), else the installed packages; with the files of our own cases."""
    folder = Path(os.environ.get("PREFLIGHT_CORPUS", sysconfig.get_path("purelib")))
    files: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*.py")):
        if len(files) >= int(os.environ.get("PREFLIGHT_BENCH_FILES", MAX_FILES)):
            break
        source = path.read_bytes()
        if may_matter(source) and too_deep(source) is None:
            files[path.relative_to(folder).as_posix()] = source
    label = f"`{folder.name}`"
    for document in sorted(CASES_DIR.rglob("*.md")):
        for number, block in enumerate(document.read_text(encoding="utf-8").split("```python\n")[1:]):
            files[f"{document.parent.name}_{number}.py"] = block.partition("```")[0].encode()
    return label, files


def best(action: Callable[[], object]) -> float:
    """Processor seconds, the shortest of `REPEATS`."""
    times = []
    for _ in range(REPEATS):
        gc.collect()
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def parse_all(files: Mapping[str, bytes]) -> None:
    """The yardstick."""
    for source in files.values():
        try:
            cst.parse_module(source)
        except (cst.ParserSyntaxError, cst.CSTValidationError):
            continue


def run() -> str:
    """Markdown."""
    label, files = corpus()
    size = sum(map(len, files.values()))
    parse = best(lambda: parse_all(files))
    nesting = best(lambda: [too_deep(source) for source in files.values()])
    full = best(lambda: analyze(Corpus(files), list(files), Options()))
    return f"""## Analysis

{len(files)} files, {size / 1e6:.2f} MB, from {label} (those that name something of the torch world) and our own cases;
one process, {REPEATS} run of each.

| | processor seconds | relative to the parse |
| --- | --- | --- |
| bare `libcst.parse_module` | {parse:.2f} | 1 |
| nesting measured (part of the analysis) | {nesting:.2f} | {nesting / parse:.2f} |
| whole analysis, parse included | {full:.2f} | {full / parse:.2f} |
"""
