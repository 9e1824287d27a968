"""Damaged programs and whole trees through ``preflight check``: it ends, answers for every file, blames no bug of ours.

``python -m benchmarks.robustness mutants --count 10000 [FOLDER…]`` writes that many mutants (`benchmarks.mutants`) of
the Python files below the folders (else of our own cases), in trees of a few hundred, each beside one whole program,
and lets the command check and fix them. ``… trees TREE…`` checks trees. ``… same TREE…`` compares what it says of them
with one and several processes, with and without a cache, in other orders and with other hash seeds, byte for byte.
``… fixes TREE…`` makes every fix in copies of trees: what was Python still is, and what has no fix is as it was.
Each prints what went wrong and how much memory it took, and exits 1 if anything did.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzer.api import Options, analyze
from analyzer.findings import Confidence
from benchmarks.mutants import Mutant, mutant, mutated
from benchmarks.part_analysis import Corpus

__all__ = ["mutated", "problems", "programs"]
ROOT = Path(__file__).resolve().parents[1]
CASES_DIR = ROOT / "tests" / "cases"
MAX_SECONDS = 20.0
"""Of one mutant."""
MAX_MIB = 1024
"""Of one process."""
WITNESS = "witness.py"
_ALL = ("--no-cache", "--min-confidence", "possible")
_COMPARED = 5
"""One batch of so many is checked twice."""
_OURS = re.compile(r"internal error|^the analysis|^not analysed")
"""Notes that no file is to blame for: a bug, a death, a time limit."""
_LINE_END = re.compile(rb"\r\n|\r|\n")


# --- in this process ---------------------------------------------------------------------------------------------


def problems(source: bytes, witness: bytes, expected: int) -> list[str]:
    """What is wrong with the analysis of a damaged file beside one that is whole."""
    return problems_of({"mutant.py": source}, witness, expected)


def problems_of(files: Mutant, witness: bytes, expected: int) -> list[str]:
    """What is wrong with the analysis of damaged files beside one that is whole."""
    start = time.process_time()
    tree = Corpus({**files, WITNESS: witness})
    report = analyze(tree, [*files, WITNESS], Options())
    found = [f"internal: {item.reason}" for item in report.skipped if _OURS.search(item.reason)]
    if sum(item.path == WITNESS for item in report.findings) != expected:
        found.append("findings of the other file are missing")
    if (seconds := time.process_time() - start) > MAX_SECONDS:
        found.append(f"took {seconds:.0f} s")
    return found


def programs(folders: Sequence[str]) -> list[bytes]:
    """The files to damage."""
    if folders:
        return [path.read_bytes() for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    texts = (path.read_text(encoding="utf-8") for path in sorted(CASES_DIR.rglob("*.md")))
    return [block.partition("```")[0].encode() for text in texts for block in text.split("```python\n")[1:]]


# --- the command -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """What one run of the command gave. `mebibytes`: the most that any process of ours has taken so far."""

    code: int
    out: bytes
    errors: str
    seconds: float
    processor: float
    mebibytes: int

    @property
    def report(self) -> dict[str, Any]:
        """Its JSON document."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    def problems(self, num_files: int | None = None) -> list[str]:
        """What is wrong whatever was checked."""
        found = [] if self.code in (0, 1) else [f"exit code {self.code}: {self.errors[-500:]}"]
        if "Traceback" in self.errors:
            found.append(f"a traceback: {self.errors[-500:]}")
        if found:
            return found
        report = self.report
        found += [f"{item['path']}: {item['reason']}" for item in report["skipped"] if _OURS.search(item["reason"])]
        if num_files is not None and report["files"] != num_files:
            found.append(f"{report['files']} files instead of {num_files}")
        return found


def command(words: Sequence[str], env: Mapping[str, str] | None = None, python: str = sys.executable) -> Answer:
    """``preflight check`` in a process of its own, with no setting of the user's."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [python, "-m", "preflight", "check", "--format", "json", *words],
        cwd=ROOT,
        env={"PATH": os.defpath, "HOME": "/nonexistent", "LANG": "C.UTF-8", **(env or {})},
        capture_output=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Answer(
        code=done.returncode,
        out=done.stdout,
        errors=done.stderr.decode(errors="replace"),
        seconds=time.monotonic() - start,
        processor=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        mebibytes=after.ru_maxrss // 1024,
    )


# --- mutants -----------------------------------------------------------------------------------------------------


def batch_problems(
    folder: Path, mutants: Mapping[int, Mutant], witness: bytes, expected: int, *, is_compared: bool
) -> list[str]:
    """What is wrong with the command on a tree of mutants, each in a folder of its own."""
    before = {f"{seed:07}/{path}": text for seed, files in mutants.items() for path, text in files.items()}
    before[WITNESS] = witness
    for path, text in before.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text)
    seen = command([str(folder), *_ALL, "--jobs", "1"])
    found = seen.problems(len(before))
    if found:
        return found
    if sum(item["path"].endswith(f"/{WITNESS}") for item in seen.report["findings"]) != expected:
        found.append("findings of the whole file are missing")
    if is_compared and command([str(folder), *_ALL, "--jobs", "3"], {"PYTHONHASHSEED": "7"}).out != seen.out:
        found.append("other numbers of processes and of hashes say something else")
    fixable = {item["path"] for item in seen.report["findings"] if item["fix"]}
    found += fix_problems(folder, before, sorted(os.path.relpath(ROOT / path, folder) for path in fixable))
    if seen.processor > MAX_SECONDS:
        for seed, files in mutants.items():
            start = time.process_time()
            analyze(Corpus(files), list(files), Options())
            if (seconds := time.process_time() - start) > MAX_SECONDS:
                found.append(f"seed {seed}: took {seconds:.0f} s")
    return found


def fix_problems(folder: Path, before: Mapping[str, bytes], fixable: Sequence[str]) -> list[str]:
    """What is wrong with the files after all fixes were made: the others are as they were, one that was Python still
    is, so is one that was JSON, line ends and marks stay, nothing lies about, and nothing is left to fix."""
    if not fixable:
        return []
    words = [*(str(folder / path) for path in fixable), *_ALL, "--jobs", "1", "--fix", "--unsafe"]
    fixed = command(words)
    found = [f"--fix: {problem}" for problem in fixed.problems(len(fixable))]
    after = {path: (folder / path).read_bytes() for path in before}
    for path, new in after.items():
        old = before[path]
        if new != old and path not in fixable:
            found.append(f"{path}: changed without a word")
        elif new != old and (reason := damage(old, new, is_notebook=path.endswith(".ipynb"))):
            found.append(f"{path}: {reason}")
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    found += [f"{path}: left behind" for path in sorted(there - set(before))]
    command(words)
    return found + [f"{path}: fixed twice" for path, text in after.items() if (folder / path).read_bytes() != text]


def damage(old: bytes, new: bytes, *, is_notebook: bool) -> str:
    """What a fix broke; empty where it is a fix."""
    if is_notebook:
        try:
            if _without_sources(old) != _without_sources(new):
                return "another notebook after a fix"
        except ValueError:
            return "no JSON after a fix"
    elif _is_python(old) and not _is_python(new):
        return "no Python after a fix"
    ends = set(_LINE_END.findall(new)) - set(_LINE_END.findall(old))
    if ends:
        return f"line ends {sorted(ends)} after a fix"
    if old[:3] != new[:3] and (old[:3] == b"\xef\xbb\xbf" or new[:3] == b"\xef\xbb\xbf"):
        return "another byte order mark after a fix"
    kept = Counter(_LINE_END.split(old))
    gone = kept - Counter(_LINE_END.split(new))
    if gone.total() > 40 + kept.total() // 3 and not is_notebook:
        return f"{gone.total()} of {kept.total()} lines changed by a fix"
    return ""


def _without_sources(notebook: bytes) -> Any:
    """A notebook but for the text of its cells."""

    def blank(item: Any) -> Any:
        if isinstance(item, list):
            return [blank(each) for each in item]
        return {key: blank(each) for key, each in item.items() if key != "source"} if isinstance(item, dict) else item

    return blank(json.loads(notebook.decode("utf-8-sig")))


def _is_python(source: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def run_mutants(args: argparse.Namespace) -> int:
    """The command on many damaged files."""
    sources = programs(args.folders)
    witness = programs([])[0]
    alone = Options(min_confidence=Confidence.POSSIBLE)
    expected = len(analyze(Corpus({WITNESS: witness}), [WITNESS], alone).findings)
    bad, peak, num_files, processor = 0, 0, 0, 0.0
    for number, start in enumerate(range(args.seed, args.seed + args.count, args.batch)):
        seeds = range(start, min(start + args.batch, args.seed + args.count))
        mutants = {seed: mutant(sources, seed) for seed in seeds}
        num_files += sum(map(len, mutants.values()))
        folder = Path(tempfile.mkdtemp(prefix="preflight-mutants-"))
        try:
            is_compared = number % _COMPARED == 0
            for problem in batch_problems(folder, mutants, witness, expected, is_compared=is_compared):
                bad += 1
                print(problem.replace(f"{os.path.relpath(folder, ROOT)}/", ""), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak, processor = used.ru_maxrss // 1024, used.ru_utime + used.ru_stime
        print(
            f"seeds to {seeds[-1]}: {bad} problems, {processor:.0f} s, at most {peak} MiB", file=sys.stderr, flush=True
        )
    print(f"{args.count} mutants ({num_files} files) of {len(sources)} programs: {bad} problems, at most {peak} MiB")
    return int(bad > 0 or peak > MAX_MIB)


# --- trees -------------------------------------------------------------------------------------------------------


def run_trees(args: argparse.Namespace) -> int:
    """The command on whole trees."""
    bad = 0
    for tree in args.trees:
        answer = command([tree, "--no-cache", *(["--jobs", str(args.jobs)] if args.jobs else [])])
        found = answer.problems()
        nothing: dict[str, Any] = {"files": 0, "findings": [], "skipped": []}
        report = answer.report if answer.code in (0, 1) else nothing
        listed = sum(1 for path in Path(tree).rglob("*.py") if path.is_file() and not path.is_symlink())
        if answer.mebibytes > MAX_MIB:
            found.append(f"{answer.mebibytes} MiB")
        print(f"{tree}: {report['files']} files ({listed} *.py below it), {len(report['findings'])} findings")
        print(f"  {answer.seconds:.0f} s, {answer.processor:.0f} s of processors; a process: {answer.mebibytes} MiB")
        kinds: dict[str, list[str]] = {}
        for item in report["skipped"]:
            kinds.setdefault(re.sub(r"\d[\d,]*", "N", item["reason"]), []).append(item["path"])
        for reason, paths in sorted(kinds.items(), key=lambda item: -len(item[1])):
            print(f"  {len(paths)} x {reason} ({paths[0].removeprefix(tree).lstrip('/')}{', …' if paths[1:] else ''})")
        for problem in found:
            print(f"  PROBLEM {problem}")
        bad += len(found)
    return int(bad > 0)


# --- the same ----------------------------------------------------------------------------------------------------


def run_same(args: argparse.Namespace) -> int:
    """The command on the same files in every way that must not matter."""
    bad = 0
    for tree in args.trees:
        paths = sorted(str(path) for path in Path(tree).rglob("*.py") if path.is_file())
        shuffled = random.Random(args.seed).sample(paths, len(paths))
        with tempfile.TemporaryDirectory() as cache:
            first = command([*paths, "--no-cache", "--jobs", "1"], {"PYTHONHASHSEED": "0"})
            ways = {
                "four processes": ([*paths, "--no-cache", "--jobs", "4"], {"PYTHONHASHSEED": "1"}),
                "another order": ([*shuffled, "--no-cache", "--jobs", "2"], {"PYTHONHASHSEED": "2"}),
                "the folder": ([tree, "--no-cache", "--jobs", "3"], {}),
                "a cold cache": ([*paths, "--jobs", "2"], {"XDG_CACHE_HOME": cache}),
                "a warm cache": ([*paths, "--jobs", "2"], {"XDG_CACHE_HOME": cache}),
            }
            answers = {name: command(words, env) for name, (words, env) in ways.items()}
        for python in args.python:
            answers[python] = command([*paths, "--no-cache", "--jobs", "2"], python=python)
        print(f"{tree}: {first.report['files']} files, {len(first.report['findings'])} findings")
        for name, answer in answers.items():
            is_same = answer.out == first.out
            bad += not is_same
            print(f"  {name}: {'the same' if is_same else 'DIFFERS'} ({answer.seconds:.1f} s)")
            if not is_same and args.keep:
                Path(args.keep).mkdir(parents=True, exist_ok=True)
                (Path(args.keep) / "first.json").write_bytes(first.out)
                (Path(args.keep) / f"{name.replace('/', '_')}.json").write_bytes(answer.out)
    return int(bad > 0)


# --- fixes -------------------------------------------------------------------------------------------------------


def run_fixes(args: argparse.Namespace) -> int:
    """All fixes of a copy of each tree."""
    bad = 0
    for tree in args.trees:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            for path in sorted(Path(tree).rglob("*")):
                if path.suffix in (".py", ".ipynb") and path.is_file():
                    place = folder / path.relative_to(tree)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(path.read_bytes())
            before = {
                path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
            }
            findings = command([name, *_ALL]).report["findings"]
            fixable = {os.path.relpath(ROOT / item["path"], folder) for item in findings if item["fix"]}
            found = fix_problems(folder, before, sorted(fixable))
            changed = sum((folder / path).read_bytes() != text for path, text in before.items())
        print(f"{tree}: {len(before)} files, {changed} of {len(fixable)} with fixes changed, {len(found)} problems")
        for problem in found:
            print(f"  {problem}")
        bad += len(found)
    return int(bad > 0)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    one = kinds.add_parser("mutants")
    one.add_argument("--count", type=int, default=10_000)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--batch", type=int, default=250)
    one.add_argument("folders", nargs="*")
    one.set_defaults(run=run_mutants)
    two = kinds.add_parser("trees")
    two.add_argument("--jobs", type=int)
    two.add_argument("trees", nargs="+")
    two.set_defaults(run=run_trees)
    three = kinds.add_parser("same")
    three.add_argument("--seed", type=int, default=0)
    three.add_argument("--python", action="append", default=[], help="also with this interpreter")
    three.add_argument("--keep", help="a folder for answers that differ")
    three.add_argument("trees", nargs="+")
    three.set_defaults(run=run_same)
    four = kinds.add_parser("fixes")
    four.add_argument("trees", nargs="+")
    four.set_defaults(run=run_fixes)
    args = parser.parse_args()
    return int(args.run(args))


if __name__ == "__main__":
    sys.exit(main())
