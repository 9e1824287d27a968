"""Look for silent training bugs in Python files.

A folder stands for the Python files below it; hidden folders, virtual environments, node_modules, site-packages and
links are left out, what is named is always read. The configuration of the project around the paths holds where no
option says otherwise.

Exit code 1: a finding at or above --fail-on. 2: wrong usage, or a named path that cannot be read. A file that does not
parse is named as skipped, and fails nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bot.cli._printing import FORMATS, is_coloured, places, rendered, save, show
from bot.errors import InputError

if TYPE_CHECKING:
    from analyzer.api import Options
    from analyzer.findings import Report
    from bot.core.config import Config
    from bot.isolate.folder import Folder
    from bot.sources.selection import Selection

_EXCLUDED = "excluded by the configuration"


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
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="analyse in N child processes (default: one per core, fewer for few files)",
    )
    parser.add_argument("--no-cache", action="store_true", help="neither use nor keep reports of earlier runs")
    parser.add_argument("--baseline", metavar="FILE", help="leave out the findings that FILE knows")
    parser.add_argument("--write-baseline", action="store_true", help="with --baseline: make FILE know what is found")
    parser.add_argument("--format", choices=FORMATS, default="terminal")
    parser.add_argument(
        "--save", action="append", default=[], metavar="FORMAT=FILE", help="write the report to a file as well"
    )


def run(args: argparse.Namespace) -> int:
    """Print the report (or the diff) and say by the exit code how bad it is."""
    from bot.cli._fixing import fixed, unified_diff, write
    from bot.isolate.pool import FILES_FOR_A_CHILD, Job, analyze_in_children
    from bot.sources.selection import select

    most_children, files = _num_children(args), places(args.save)
    selection = select(args.paths)
    config = _config(selection)
    selection = _without_excluded(selection, config, args.paths)
    num_children = min(most_children, args.jobs or 1 + len(selection.targets) // FILES_FOR_A_CHILD)
    _tell_extensions()
    job = Job(root=selection.root, paths=selection.paths, targets=selection.targets, options=_options(args, config))
    report = analyze_in_children(job, num_children, store=None if args.no_cache else _store(selection))
    report = _wanted(report, config)
    if args.fix or args.diff:
        changes = fixed(job, report, num_children, args.unsafe)
        if args.diff:
            show(unified_diff(changes, selection.shown))
            if num_unsafe := _num_unsafe(changes.report, args.unsafe):
                print(f"{_unsafe_fixes(num_unsafe)} not shown (--unsafe shows them)", file=sys.stderr)
            return _exit_code(_finished(report, selection, config, is_told=True), selection, args.fail_on)
        write(selection.root, changes)
        report = changes.report
        _tell(changes.num_fixes, len(changes.after), _num_unsafe(report, args.unsafe))
    if args.baseline or config.baseline:
        report = _without_known(report, args, config, selection)
    report = _finished(report, selection, config, is_told=args.format == "terminal")
    for form, path in files:
        save(report, form, path)
    if not job.targets and not report.skipped and args.format == "terminal":
        if not selection.missing:
            print("no Python files or notebooks there: nothing to check")
    else:
        show(rendered(report, args.format, is_coloured()))
    return _exit_code(report, selection, args.fail_on)


def _store(selection: Selection) -> Folder | None:
    """Where reports of earlier runs are; what stands in the way is said."""
    from bot.isolate import cache
    from bot.isolate.folder import Folder, folder_for

    if not cache.is_possible():
        return None
    folder = folder_for(selection.root)
    if folder is None and selection.targets:
        where = "neither your cache folder nor the one for temporary files is yours alone and outside the tree"
        print(f"preflight check: nothing is remembered for the next run: {where}", file=sys.stderr)
    return Folder(folder) if folder is not None else None


def _num_children(args: argparse.Namespace) -> int:
    if args.unsafe and not (args.fix or args.diff):
        raise InputError("--unsafe goes with --fix or --diff")
    if args.jobs is not None and args.jobs < 1:
        raise InputError("--jobs: give a number of at least 1")
    if args.write_baseline and not args.baseline:
        raise InputError("--write-baseline goes with --baseline FILE")
    return args.jobs or min(8, os.cpu_count() or 1)


def _tell_extensions() -> None:
    from analyzer.api import extension_problems

    for problem in extension_problems():
        print(f"preflight check: {problem}", file=sys.stderr)


def _config(selection: Selection) -> Config:
    from bot.core.config import find

    def read(path: str) -> bytes | None:
        place = selection.root / path
        return place.read_bytes() if place.is_file() and os.access(place, os.R_OK) else None

    config, problems = find(read)
    for problem in problems:
        print(f"preflight check: {problem}", file=sys.stderr)
    return config


def _without_excluded(selection: Selection, config: Config, named: Sequence[str]) -> Selection:
    """The selection without what the configuration excludes; a file that was named is said to be left out."""
    from dataclasses import replace

    from analyzer.findings import Skipped

    gone = [path for path in selection.targets if not config.reviews(path)]
    words = {os.path.abspath(word) for word in named}
    said = [path for path in gone if os.path.abspath(selection.root / path) in words]
    return replace(
        selection,
        targets=tuple(path for path in selection.targets if config.reviews(path)),
        skipped=(*selection.skipped, *(Skipped(selection.shown(path), _EXCLUDED) for path in said)),
    )


def _options(args: argparse.Namespace, config: Config) -> Options:
    from analyzer.api import Options
    from analyzer.findings import Confidence
    from bot.catalogue import codes

    chosen = codes(args.select)
    if chosen and not chosen - {"PF501"}:
        raise InputError("PF501 is found in launch configs: `preflight estimate FILE` or `preflight review` reports it")
    return Options(
        select=chosen or config.select,
        ignore=codes(args.ignore) | config.ignore,
        min_confidence=Confidence(args.min_confidence) if args.min_confidence else config.min_confidence,
    )


def _wanted(report: Report, config: Config) -> Report:
    """The report as the configuration wants it: what it says of some paths only, and its severities."""
    from dataclasses import replace

    findings = tuple(
        replace(item, severity=config.severity(item.rule, item.path) or item.severity)
        for item in report.findings
        if not config.ignores(item.rule, item.path)
    )
    return replace(report, findings=findings)


def _finished(report: Report, selection: Selection, config: Config, *, is_told: bool) -> Report:
    """The report with the paths a person here would type, the project's severities, and what was not even analysed."""
    from dataclasses import replace

    from bot.core.reports import once, renamed

    shown = renamed(_wanted(report, config), selection.shown)
    missing = () if is_told else selection.missing  # the terminal is told on stderr, with the exit code
    skipped = (*missing, *selection.skipped, *once(shown.skipped))
    return replace(shown, skipped=skipped, busy=())


def _exit_code(report: Report, selection: Selection, fail_on: str) -> int:
    from analyzer.findings import Severity

    for item in selection.missing:
        print(f"preflight check: {item.path}: {item.reason}", file=sys.stderr)
    if selection.missing:
        return 2
    return int(any(item.severity.rank >= Severity(fail_on).rank for item in report.findings))


def _num_unsafe(report: Report, with_unsafe: bool) -> int:
    return 0 if with_unsafe else sum(bool(item.fix and item.fix.applicability == "unsafe") for item in report.findings)


def _tell(num_fixes: int, num_files: int, num_unsafe: int) -> None:
    files = "1 file" if num_files == 1 else f"{num_files} files"
    text = f"fixed {num_fixes} in {files}" if num_fixes else "nothing to fix"
    if num_unsafe:
        text += f"; {_unsafe_fixes(num_unsafe)} left (--diff --unsafe shows them)"
    print(text, file=sys.stderr)


def _unsafe_fixes(number: int) -> str:
    return f"{number} unsafe {'fix' if number == 1 else 'fixes'}"


def _without_known(report: Report, args: argparse.Namespace, config: Config, selection: Selection) -> Report:
    """The report without what the baseline knows; or, with ``--write-baseline``, a baseline that knows it all."""
    from bot.core import baseline

    path = Path(args.baseline) if args.baseline else selection.root / config.baseline

    def read(name: str) -> bytes | None:
        return _bytes(selection.root / name)

    old = () if args.write_baseline and not path.exists() else baseline.load(_text(path), str(path))
    if args.write_baseline:
        others = [item for item in old if item.path not in selection.targets and (selection.root / item.path).exists()]
        _write(path, baseline.dump({*others, *baseline.entries_of(report, read)}))
        old = baseline.load(_text(path), str(path))
    gone = {item.path for item in old if not (selection.root / item.path).exists()}
    kept, expired = baseline.hidden(report, old, read, {*selection.targets, *gone})
    ran = _rules_that_ran(args, config)
    for entry in expired:
        if entry.rule in ran:
            print(
                f"{selection.shown(entry.path)}: {entry.rule} of the baseline is gone: {entry.message}", file=sys.stderr
            )
    return kept


def _rules_that_ran(args: argparse.Namespace, config: Config) -> frozenset[str]:
    from bot.catalogue import all_rules

    options = _options(args, config)
    return (options.select or frozenset(rule.code for rule in all_rules())) - options.ignore


def _text(path: Path) -> str:
    content = _bytes(path)
    if content is None:
        raise InputError(f"{path}: no such baseline (--write-baseline makes one)")
    return content.decode("utf-8", "replace")


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
