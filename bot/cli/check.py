"""Look for silent training bugs in Python files.

A folder stands for the Python files below it; hidden folders, virtual environments, node_modules, site-packages and
links are left out, what is named is always read. The configuration of the project around the paths holds where no
option says otherwise.

Exit code 1: a finding at or above --fail-on. 2: wrong usage, or a named path that cannot be read.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import InputError

if TYPE_CHECKING:
    from analyzer.api import Options
    from analyzer.findings import Report
    from bot.core.config import Config
    from bot.isolate.pool import Job
    from bot.sources.selection import Selection


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a Python file or a folder")
    parser.add_argument(
        "--select", action="append", default=[], metavar="CODES",
        help="only these rules: PF101,TG005,double-softmax; PF1 means all whose code starts so",
    )  # fmt: skip
    parser.add_argument("--ignore", action="append", default=[], metavar="CODES", help="not these rules")
    parser.add_argument(
        "--min-confidence", choices=("certain", "likely", "possible"), help="how sure a finding has to be (likely)"
    )
    parser.add_argument(
        "--fail-on", choices=("error", "warning", "note"), default="error", help="what exits 1 (default: error)"
    )
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--fix", action="store_true", help="apply the safe fixes, and report what is left")
    change.add_argument("--diff", action="store_true", help="print what --fix would change, and change nothing")
    parser.add_argument("--unsafe", action="store_true", help="with --fix or --diff: also fixes that change behaviour")
    parser.add_argument("--jobs", type=int, metavar="N", help="analyse in N child processes (default: one per core)")
    parser.add_argument("--no-cache", action="store_true", help="accepted; there is no cache yet")
    parser.add_argument("--format", choices=("terminal", "json", "github", "sarif"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Print the report (or the diff) and say by the exit code how bad it is."""
    from bot.cli._fixing import fixed, unified_diff, write
    from bot.isolate.pool import Job, analyze_in_children
    from bot.sources.selection import select

    num_children = _num_children(args)
    selection = select(args.paths)
    config = _config(selection)
    job = Job(root=selection.root, paths=selection.paths, targets=selection.targets, options=_options(args, config))
    report = analyze_in_children(job, num_children)
    if args.fix or args.diff:
        changes = fixed(job, report, num_children, args.unsafe)
        if args.diff:
            sys.stdout.write(unified_diff(changes, selection.shown))
        else:
            write(selection.root, changes)
            report = changes.report
            _tell(changes.num_fixes, len(changes.after))
    report = _finished(report, selection, config)
    if not args.diff:
        _print(report, selection, job, args.format)
    return _exit_code(report, selection, args.fail_on)


def _num_children(args: argparse.Namespace) -> int:
    if args.unsafe and not (args.fix or args.diff):
        raise InputError("--unsafe goes with --fix or --diff")
    if args.jobs is not None and args.jobs < 1:
        raise InputError("--jobs: give a number of at least 1")
    return args.jobs or min(8, os.cpu_count() or 1)


def _config(selection: Selection) -> Config:
    from bot.core.config import find

    def read(path: str) -> bytes | None:
        place = selection.root / path
        return place.read_bytes() if place.is_file() and os.access(place, os.R_OK) else None

    config, problems = find(read)
    for problem in problems:
        print(f"preflight check: {problem}", file=sys.stderr)
    return config


def _options(args: argparse.Namespace, config: Config) -> Options:
    from analyzer.api import Options
    from analyzer.findings import Confidence
    from bot.catalogue import codes

    return Options(
        select=codes(args.select) or config.select,
        ignore=codes(args.ignore) | config.ignore,
        min_confidence=Confidence(args.min_confidence) if args.min_confidence else config.min_confidence,
    )


def _finished(report: Report, selection: Selection, config: Config) -> Report:
    """The report with the paths a person here would type, the project's severities, and what was not even analysed."""
    from dataclasses import replace

    from bot.core.reports import renamed

    shown = renamed(report, selection.shown)
    severities = config.severities
    findings = (replace(item, severity=severities.get(item.rule, item.severity)) for item in shown.findings)
    skipped = (*selection.missing, *selection.skipped, *shown.skipped)
    return replace(shown, findings=tuple(findings), skipped=skipped)


def _exit_code(report: Report, selection: Selection, fail_on: str) -> int:
    from analyzer.findings import Severity

    for item in selection.missing:
        print(f"preflight check: {item.path}: {item.reason}", file=sys.stderr)
    if selection.missing:
        return 2
    return int(any(item.severity.rank >= Severity(fail_on).rank for item in report.findings))


def _tell(num_fixes: int, num_files: int) -> None:
    files = "1 file" if num_files == 1 else f"{num_files} files"
    print(f"fixed {num_fixes} in {files}" if num_fixes else "nothing to fix", file=sys.stderr)


def _print(report: Report, selection: Selection, job: Job, form: str) -> None:
    if hasattr(sys.stdout, "reconfigure"):  # names of files need not be text
        sys.stdout.reconfigure(errors="backslashreplace")
    if form == "json":
        print(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    elif form == "github":
        from bot.render.annotations import render as commands

        print(commands(report), end="")
    elif form == "sarif":
        from bot.render.sarif import render as sarif

        print(json.dumps(sarif(report, _read), indent=2, ensure_ascii=False))
    elif not job.targets and not report.skipped:
        print("no Python files there: nothing to check")
    else:
        _print_terminal(report)


def _print_terminal(report: Report) -> None:
    from functools import cache

    from analyzer.api import cell_lines, text_of
    from bot.render.terminal import Style, render

    @cache
    def cells(path: str) -> dict[int, tuple[str, ...]]:
        return cell_lines(_read(path) or b"")

    @cache
    def lines(path: str, cell: int | None) -> tuple[str, ...]:
        if cell is not None:
            return cells(path).get(cell, ())
        return tuple((text_of(_read(path) or b"") or "").splitlines())

    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    print(render(report, lines, Style(is_coloured)))


def _read(path: str) -> bytes | None:
    """A file by the path that is shown, which is relative to the working directory."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
