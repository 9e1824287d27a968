"""Look for silent training bugs in Python files.

A folder stands for the Python files below it; hidden folders, virtual environments, node_modules and links are left
out, a file that is named is always read. Exit code 1: a finding at or above --fail-on; 2: a path that cannot be read.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import InputError

if TYPE_CHECKING:
    from analyzer.api import Options
    from analyzer.findings import Fix, Report
    from bot.isolate.files import DiskFiles

_PASSES = 5  # a fix may make room for another; more rounds than this would mean that two undo each other


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a Python file or a folder")
    parser.add_argument("--select", default="", metavar="CODES", help="only these rules (PF101,TG005,graph-retention)")
    parser.add_argument("--ignore", default="", metavar="CODES", help="not these rules")
    parser.add_argument("--min-confidence", choices=("certain", "likely", "possible"), default="likely")
    parser.add_argument("--fail-on", choices=("error", "warning", "note"), default="error")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--fix", action="store_true", help="apply the fixes that are proven safe")
    change.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")
    parser.add_argument("--unsafe", action="store_true", help="with --fix or --diff: the unproven fixes too")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="child processes (default: one per core)")
    parser.add_argument("--no-cache", action="store_true", help="accepted; this version keeps no cache")
    parser.add_argument("--format", choices=("terminal", "json", "github", "sarif"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Check, perhaps fix, print, and say by the exit code whether something is wrong."""
    from analyzer.findings import Severity
    from bot.isolate.pool import check, default_jobs

    if args.unsafe and not (args.fix or args.diff):
        raise InputError("--unsafe goes with --fix or --diff")
    if args.jobs < 0:
        raise InputError("--jobs must be at least 1")
    files, targets = _collect(args.paths)
    options = _options(args)
    jobs = args.jobs or default_jobs()
    report = check(files, targets, options, jobs)
    if args.diff:
        print(_diff(files, report, args.unsafe), end="")
    elif args.fix:
        report = _fix(files, targets, options, jobs, report, args.unsafe)
    if not args.diff:
        _print(report, files, args.format)
    return int(any(item.severity.rank >= Severity(args.fail_on).rank for item in report.findings))


def _collect(paths: list[str]) -> tuple[DiskFiles, list[str]]:
    """The targets, and the files that their imports may lead to."""
    from bot.isolate.files import DiskFiles, project_root, walk

    base = os.getcwd()
    targets: dict[str, None] = {}
    listed: set[str] = set()
    for path in paths:
        if os.path.isdir(path):
            if not os.access(path, os.R_OK | os.X_OK):
                raise InputError(f"{path}: permission denied")
            found = [_relative(item, base) for item in walk(path)]
            targets.update(dict.fromkeys(found))
            listed.update(found)
        else:
            _must_be_readable(path)
            targets[_relative(path, base)] = None
            listed.update(_relative(item, base) for item in walk(project_root(path)))
    listed.update(targets)
    return DiskFiles(base, listed), list(targets)


def _must_be_readable(path: str) -> None:
    try:
        with open(path, "rb") as stream:
            stream.read(1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _relative(path: str, base: str) -> str:
    return Path(os.path.relpath(path, base)).as_posix()


def _options(args: argparse.Namespace) -> Options:
    from analyzer.api import Options
    from analyzer.findings import Confidence

    return Options(_codes(args.select), _codes(args.ignore), Confidence(args.min_confidence))


def _codes(text: str) -> frozenset[str]:
    from analyzer import catalogue

    found = set()
    for word in filter(None, (part.strip() for part in text.replace(" ", ",").split(","))):
        rule = catalogue.find(word)
        if rule is None:
            near = ", ".join(catalogue.nearest(word))
            raise InputError(f"no rule {word!r}" + (f"; nearest: {near}" if near else ""))
        found.add(rule.code)
    return frozenset(found)


# --- fixes --------------------------------------------------------------------------------------------------------


def _fixes(report: Report, with_unsafe: bool) -> dict[str, list[Fix]]:
    from analyzer.fixes.apply import choose

    by_path: dict[str, list[Fix]] = {}
    for fix in choose(report.findings, with_unsafe):
        paths = {edit.span.path for edit in fix.edits}
        if len(paths) == 1:
            by_path.setdefault(paths.pop(), []).append(fix)
    return by_path


def _changed(files: DiskFiles, report: Report, with_unsafe: bool) -> dict[str, tuple[bytes, bytes]]:
    """Path to its bytes before and after."""
    from analyzer.fixes.apply import apply

    result = {}
    for path, fixes in _fixes(report, with_unsafe).items():
        before = files.read(path)
        if before is None:
            continue
        after = apply(before, [edit for fix in fixes for edit in fix.edits])
        if after != before:
            result[path] = before, after
    return result


def _fix(
    files: DiskFiles, targets: list[str], options: Options, jobs: int, report: Report, with_unsafe: bool
) -> Report:
    from bot.isolate.pool import check

    for _ in range(_PASSES):
        changed = _changed(files, report, with_unsafe)
        if not changed:
            break
        for path, (_, after) in changed.items():
            _replace(os.path.join(files.base, path), after)
        report = check(files, targets, options, jobs)
    return report


def _replace(path: str, content: bytes) -> None:
    """Atomic: another process sees the old file or the new one. Mode stays; through a link, its target changes."""
    real = os.path.realpath(path)
    temporary = f"{real}.preflight-{os.getpid()}"
    mode = os.stat(real).st_mode & 0o7777
    try:
        with open(temporary, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, real)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _diff(files: DiskFiles, report: Report, with_unsafe: bool) -> str:
    from analyzer.nesting import decode

    parts: list[str] = []
    for path, (before, after) in sorted(_changed(files, report, with_unsafe).items()):
        old, new = decode(before).splitlines(keepends=True), decode(after).splitlines(keepends=True)
        for line in difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"):
            parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


# --- output -------------------------------------------------------------------------------------------------------


def _print(report: Report, files: DiskFiles, form: str) -> None:
    if form == "json":
        print(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    elif form == "sarif":
        from analyzer import catalogue
        from bot.render.sarif import report_sarif

        pages = {rule.code: catalogue.page(rule) for rule in catalogue.rules()}
        print(json.dumps(report_sarif(report, metadata.version("preflight-bot"), pages), indent=2))
    elif form == "github":
        from bot.render.annotations import report_commands

        print(report_commands(report))
    else:
        print(_terminal(report, files))


def _terminal(report: Report, files: DiskFiles) -> str:
    from analyzer.nesting import decode
    from bot.render.terminal import report_text

    texts: dict[str, list[str]] = {}

    def line_of(path: str, line: int) -> str | None:
        if path not in texts:
            try:
                texts[path] = decode(files.read(path) or b"").splitlines()
            except ValueError:
                texts[path] = []
        return texts[path][line - 1] if line <= len(texts[path]) else None

    if not report.num_files:
        return "no Python files there: nothing to check"
    return report_text(report, line_of)
