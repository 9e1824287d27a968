"""Make a small example of a finding that is wrong, to post in an issue: `preflight report train.py:14`.

The finding is looked for as `preflight check` on the whole project sees it, in the programs of the files that import
this one too. What it does not need of the files is taken away, comments, docstrings and texts first of all. Names stay:
read it before you post it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import InputError

if TYPE_CHECKING:
    from analyzer.findings import Finding
    from analyzer.reduce import Reduced
    from bot.isolate.analysis import ListedFiles
    from bot.sources.selection import Selection

_PLACE = re.compile(r"(?P<path>.+?):(?:cell (?P<cell>\d+):)?(?P<line>\d+)(?::\d+)?:?")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("place", metavar="PATH:LINE", help="where `preflight check` reports it: train.py:14")
    parser.add_argument("--rule", metavar="RULE", help="which finding, where the line has several")
    parser.add_argument("--output", metavar="FILE", help="write to FILE instead of printing")


def run(args: argparse.Namespace) -> int:
    """Print the issue's text. Raises `InputError` where there is no such finding."""
    from analyzer.api import reduced
    from bot.isolate.analysis import ListedFiles
    from bot.sources.selection import select

    place = _PLACE.fullmatch(args.place)
    if place is None:
        raise InputError(f"{args.place!r}: give PATH:LINE, as `preflight check` prints it")
    selection = select([place["path"]])
    if not selection.targets:
        raise InputError(f"{place['path']}: {(*selection.missing, *selection.skipped)[0].reason}")
    files = ListedFiles(selection.root, selection.paths, {})
    finding, entry = _finding(files, selection, place, args.rule)
    text = _issue(finding, reduced(files, finding, entry))
    if args.output:
        Path(args.output).write_text(text, encoding="utf-8")
        print(f"wrote {args.output}")
    else:
        print(text, end="")
    return 0


def _finding(files: ListedFiles, selection: Selection, place: re.Match[str], rule: str | None) -> tuple[Finding, str]:
    """The finding at a place, as it is in the whole tree, and the file whose program shows it: the nearest one."""
    from analyzer.api import Options
    from analyzer.findings import Confidence
    from bot.catalogue import find
    from bot.core.dependents import all_dependents
    from bot.core.reports import merged
    from bot.isolate.pool import FILES_FOR_A_CHILD, Job, analyze_each_in_children

    options = Options(select=frozenset({find(rule).code}) if rule else frozenset(), min_confidence=Confidence.POSSIBLE)
    path = selection.targets[0]
    targets = (path, *all_dependents(files, path))
    job = Job(root=selection.root, paths=selection.paths, targets=targets, options=options)
    num_children = min(8, os.cpu_count() or 1, 1 + len(targets) // FILES_FOR_A_CHILD)
    reports = analyze_each_in_children(job, num_children)
    findings = [item for item in merged(reports[each] for each in targets).findings if item.path == path]
    line, cell = int(place["line"]), int(place["cell"]) if place["cell"] else None
    here = [item for item in findings if _covers(item, line, cell)]
    if here:
        finding = max(here, key=lambda item: (item.confidence.rank, item.severity.rank))
        return finding, next(each for each in targets if finding in reports[each].findings)
    others = ", ".join(f"{item.line} ({item.rule})" for item in findings[:10])
    raise InputError(f"no finding at line {line}; there are some at {others}" if others else "no finding in this file")


def _covers(finding: Finding, line: int, cell: int | None) -> bool:
    if cell is not None:
        within = finding.cell
        return within is not None and within.number == cell and within.start.line <= line <= within.end.line
    return finding.span.start.line <= line <= finding.span.end.line


def _issue(finding: Finding, small: Reduced | None) -> str:
    from importlib import metadata

    from bot.render.markdown import code, fenced

    versions = f"preflight {metadata.version('preflight-bot')}, Python {platform.python_version()}"
    parts = [
        f"## {finding.rule} {finding.name}: wrong finding",
        f"{finding.severity.value}, {finding.confidence.value}; {versions}",
        fenced(finding.message),
        "**Why it is wrong**: (say here what the code does instead)",
    ]
    if small is None:
        parts.append("(The files that its program imports do not show it by themselves: no example could be made.)")
        return "\n\n".join(parts) + "\n"
    for path, text in small.sources.items():
        parts += [code(path), fenced(text, "python")]
    size = f"{small.num_after} of {small.num_before} lines"
    parts.append(f"({size}. Comments, docstrings and texts are gone; names are not.)")
    command = f"preflight check . --select {finding.rule} --min-confidence {finding.confidence.value}"
    parts.append(f"To see it: `{command}`")
    return "\n\n".join(parts) + "\n"
