"""Analysis time against bare `libcst.parse_module`, and against torch-preflight where given on the same files.

``PREFLIGHT_CORPUS`` names the folder of the files (else the installed packages), ``PREFLIGHT_BENCH_FILES`` how many,
``PREFLIGHT_TREE`` a whole tree for the last table, ``PREFLIGHT_PEER`` the command of torch-preflight
(``torch-preflight check``), run on that tree (without one, on the files) as it comes or with
``PREFLIGHT_PEER_OPTIONS`` (``--ignore TG008``). ``PREFLIGHT_CHECKOUTS`` names a folder of checkouts that the engine was
not made faster on: the training files of every fourth, each analysed with its own tree to follow imports in.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
import resource
import shlex
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import libcst as cst

from analyzer import catalogue, pipeline
from analyzer.api import Options
from analyzer.nesting import too_deep
from analyzer.screen import may_matter

MAX_FILES = 25
"""Keeps the benchmark below a minute; ``PREFLIGHT_BENCH_FILES`` raises it."""
REPEATS = 1
CHECKOUT_STRIDE = 4
CASES_DIR = Path(__file__).resolve().parents[1] / "tests" / "cases"
_TRAINS = re.compile(rb"\.backward\(|\bdef (?:forward|training_step)\(")


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


def corpus() -> tuple[str, dict[str, bytes], int]:
    """Files that pass the screen and train or compute a forward pass, those of our own cases among them; and how many
    files the screen skipped on the way."""
    folder = Path(os.environ.get("PREFLIGHT_CORPUS", sysconfig.get_path("purelib")))
    files: dict[str, bytes] = {}
    num_screened = 0
    for path in sorted(folder.rglob("*.py")):
        if len(files) >= int(os.environ.get("PREFLIGHT_BENCH_FILES", MAX_FILES)):
            break
        source = path.read_bytes()
        if not may_matter(source):
            num_screened += 1
        elif _TRAINS.search(source) and too_deep(source) is None:
            files[path.relative_to(folder).as_posix()] = source
    for document in sorted(CASES_DIR.rglob("*.md")) if "PREFLIGHT_CORPUS" not in os.environ else ():
        for number, block in enumerate(document.read_text(encoding="utf-8").split("```python\n")[1:]):
            files[f"{document.parent.name}_{number}.py"] = block.partition("```")[0].encode()
    return f"`{folder.name}`", files, num_screened


def peer(files: Mapping[str, bytes], options: str = "") -> float | None:
    """Processor seconds of torch-preflight, its start included, on the same files; None where it is not given."""
    command = os.environ.get("PREFLIGHT_PEER")
    if command is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        for name, source in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = [*shlex.split(command), *shlex.split(options), folder]
        done = subprocess.run(words, check=False, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):  # 1: it found something; anything else is no time of an analysis
        raise RuntimeError(f"{shlex.join(words)} ended with {done.returncode}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
    catalogue.rules()  # imported before anything is measured, as LibCST is
    label, files, num_screened = corpus()
    size = sum(map(len, files.values()))
    hashes = hashlib.sha256("".join(sorted(hashlib.sha256(source).hexdigest() for source in files.values())).encode())
    parse = best(lambda: parse_all(files))
    nesting = best(lambda: [too_deep(source) for source in files.values()])
    full = best(lambda: pipeline.analyze(Corpus(files), list(files), Options()))
    own = "" if "PREFLIGHT_CORPUS" in os.environ else "; our own cases are among them"
    other = peer(files) if "PREFLIGHT_TREE" not in os.environ else None
    last = f"| torch-preflight, as it comes | {other:.2f} | {other / parse:.2f} |\n" if other is not None else ""
    return f"""## Analysis

{len(files)} files, {size / 1e6:.2f} MB, from {label}: those that name something of the torch world and train or hold a
`forward` (the screen skipped {num_screened} on the way{own}).
One process, no cache, {REPEATS} run of each; modules are imported before, LibCST's and ours.
SHA-256 of the sorted SHA-256 of the files: `{hashes.hexdigest()[:16]}`.

| | processor seconds | relative to the parse |
| --- | --- | --- |
| bare `libcst.parse_module` | {parse:.2f} | 1 |
| nesting measured (part of the analysis) | {nesting:.2f} | {nesting / parse:.2f} |
| whole analysis, all rules, fixes tried | {full:.2f} | {full / parse:.2f} |
{last}{checkouts()}{whole_tree()}"""


def checkouts() -> str:
    """Training files of whole repositories, most of which import from each other and are run from several programs."""
    folder = os.environ.get("PREFLIGHT_CHECKOUTS")
    if folder is None:
        return ""
    trees: list[tuple[dict[str, bytes], dict[str, bytes]]] = []
    for root in sorted(Path(folder).iterdir())[::CHECKOUT_STRIDE]:
        whole = {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in sorted(root.rglob("*.py"))
            if path.is_file()
        }
        trains = {
            path: source
            for path, source in whole.items()
            if may_matter(source) and _TRAINS.search(source) and too_deep(source) is None
        }
        if trains:
            trees.append((whole, trains))
    num_files = sum(len(trains) for _, trains in trees)
    hashes = sorted(hashlib.sha256(source).hexdigest() for _, trains in trees for source in trains.values())
    digest = hashlib.sha256("".join(hashes).encode()).hexdigest()[:16]
    parse = best(lambda: parse_all({f"{at}/{path}": each[path] for at, (_, each) in enumerate(trees) for path in each}))
    full = best(lambda: [pipeline.analyze(Corpus(whole), list(trains), Options()) for whole, trains in trees])
    singles = [{path: source} for _, trains in trees for path, source in trains.items()]
    alone = best(lambda: [pipeline.analyze(Corpus(each), list(each), Options()) for each in singles])
    return f"""
The same of {num_files} training files in {len(trees)} repositories that nothing was made faster on, each with its whole
tree at hand (what their imports lead to is read and run too). SHA-256 as above: `{digest}`.

| | processor seconds | relative to the parse |
| --- | --- | --- |
| bare `libcst.parse_module` | {parse:.2f} | 1 |
| whole analysis, all rules, fixes tried | {full:.2f} | {full / parse:.2f} |
| the same of each file alone, without its tree | {alone:.2f} | {alone / parse:.2f} |
"""


def whole_tree() -> str:
    """A tree as it lies there, most of it no business of ours."""
    folder = os.environ.get("PREFLIGHT_TREE")
    if folder is None:
        return ""
    root = Path(folder)
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.py"))}
    num_screened = sum(not may_matter(source) for source in files.values())
    full = best(lambda: pipeline.analyze(Corpus(files), list(files), Options()))
    rows = [("Preflight, all rules, fixes tried", full)]
    options = os.environ.get("PREFLIGHT_PEER_OPTIONS", "")
    other = peer(files, options)
    if other is not None:
        rows.append((f"torch-preflight, {f'`{options}`' if options else 'as it comes'}, its start included", other))
    table = "".join(f"| {what} | {seconds:.1f} | {seconds / full:.1f} |\n" for what, seconds in rows)
    return f"""
Of the tree `{root.name}`: {len(files)} files, {sum(map(len, files.values())) / 1e6:.1f} MB, of which the screen skipped
{num_screened}.

| | processor seconds | relative |
| --- | --- | --- |
{table}"""
