"""Several reports on one tree as one, and reports as they travel between processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from analyzer.findings import (
    Cell,
    Confidence,
    Edit,
    Evidence,
    Excuse,
    Finding,
    Fix,
    Position,
    Report,
    Severity,
    Skipped,
    Span,
    Suppressed,
    surest,
)


def merged(reports: Iterable[Report]) -> Report:
    """One report; findings by place, the files that could not be analysed by path."""
    parts = tuple(reports)
    findings = surest(item for part in parts for item in part.findings)
    skipped = dict.fromkeys(item for part in parts for item in part.skipped)
    suppressed = dict.fromkeys(item for part in parts for item in part.suppressed)
    busy = {item for part in parts for item in part.busy}
    idle = {item for part in parts for item in part.idle} - busy
    return Report(
        num_files=sum(part.num_files for part in parts),
        skipped=tuple(sorted(skipped, key=lambda item: (item.path, item.reason))),
        findings=tuple(sorted(findings, key=lambda item: (item.span, item.rule))),
        suppressed=tuple(sorted(suppressed, key=lambda item: (item.path, item.line, item.rule))),
        idle=tuple(sorted(idle)),
        busy=tuple(sorted(busy)),
    )


def is_whole(report: Report) -> bool:
    """Whether no bug of ours shortened it: one that did is not kept for another run."""
    return not any("internal error" in item.reason for item in report.skipped)


def renamed(report: Report, name: Callable[[str], str]) -> Report:
    """The report with every path as `name` has it."""
    return replace(
        report,
        skipped=tuple(replace(item, path=name(item.path)) for item in report.skipped),
        findings=tuple(_finding(item, name) for item in report.findings),
        suppressed=tuple(replace(item, path=name(item.path)) for item in report.suppressed),
        idle=tuple(replace(item, path=name(item.path)) for item in report.idle),
        busy=tuple(replace(item, path=name(item.path)) for item in report.busy),
    )


def _finding(finding: Finding, name: Callable[[str], str]) -> Finding:
    fix = finding.fix
    if fix is not None:
        edits = (replace(edit, span=replace(edit.span, path=name(edit.span.path))) for edit in fix.edits)
        fix = replace(fix, edits=tuple(edits))
    evidence = tuple(replace(step, path=name(step.path)) for step in finding.evidence)
    return replace(finding, span=replace(finding.span, path=name(finding.path)), evidence=evidence, fix=fix)


def once(skipped: Iterable[Skipped]) -> tuple[Skipped, ...]:
    """The notes, with the same failure of ours in many files as one."""
    by_reason: dict[str, list[Skipped]] = {}
    for item in skipped:
        is_ours = item.reason.startswith("internal error")
        by_reason.setdefault(item.reason if is_ours else f"{item.path}\0{item.reason}", []).append(item)
    notes = []
    for first, *more in by_reason.values():
        tail = f" (and so in {len(more)} other files)" if len(more) > 1 else " (and so in another file)" if more else ""
        notes.append(replace(first, reason=first.reason + tail))
    return tuple(notes)


def report_from_json(document: Mapping[str, Any]) -> Report:
    """The report that `Report.to_json` wrote."""
    return Report(
        num_files=document["files"],
        skipped=tuple(Skipped(**item) for item in document["skipped"]),
        findings=tuple(finding_from_json(item) for item in document["findings"]),
        suppressed=tuple(Suppressed(**item) for item in document["suppressed"]),
        idle=tuple(Excuse(**item) for item in document.get("unused_suppressions", ())),
        busy=tuple(Excuse(**item) for item in document.get("used_suppressions", ())),
    )


def finding_from_json(document: Mapping[str, Any]) -> Finding:
    """The finding that `Finding.to_json` wrote."""
    start = Position(document["line"], document["column"])
    end = Position(document["end_line"], document["end_column"])
    fix = document["fix"]
    return Finding(
        rule=document["rule"],
        name=document["name"],
        span=Span(document["path"], start, end),
        severity=Severity(document["severity"]),
        confidence=Confidence(document["confidence"]),
        message=document["message"],
        evidence=tuple(map(_evidence_from_json, document["evidence"])),
        cell=_cell_from_json(document),
        fix=None if fix is None else Fix(fix["title"], fix["applicability"], tuple(map(_edit_from_json, fix["edits"]))),
    )


def _evidence_from_json(document: Mapping[str, Any]) -> Evidence:
    return Evidence(document["path"], document["line"], document["column"], document["note"], _cell_from_json(document))


def _cell_from_json(document: Mapping[str, Any]) -> Cell | None:
    if "cell" not in document:
        return None
    start = Position(document["cell_line"], document["cell_column"])
    end = Position(document.get("cell_end_line", start.line), document.get("cell_end_column", start.column))
    return Cell(document["cell"], start, end)


def _edit_from_json(document: Mapping[str, Any]) -> Edit:
    start, end = Position(**document["start"]), Position(**document["end"])
    return Edit(Span(document["path"], start, end), document["text"])
