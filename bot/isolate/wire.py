"""A job for a child process and its report, as JSON."""

from __future__ import annotations

from typing import Any

from analyzer.api import Options
from analyzer.findings import (
    Confidence,
    Edit,
    Evidence,
    Finding,
    Fix,
    Position,
    Report,
    Severity,
    Skipped,
    Span,
    Suppressed,
)


def options_to_json(options: Options) -> dict[str, Any]:
    """The options as data."""
    return {
        "select": sorted(options.select),
        "ignore": sorted(options.ignore),
        "min_confidence": options.min_confidence.value,
    }


def options_from_json(data: dict[str, Any]) -> Options:
    """The inverse of `options_to_json`."""
    return Options(frozenset(data["select"]), frozenset(data["ignore"]), Confidence(data["min_confidence"]))


def report_from_json(data: dict[str, Any]) -> Report:
    """The inverse of `Report.to_json`."""
    return Report(
        num_files=data["files"],
        skipped=tuple(Skipped(**item) for item in data["skipped"]),
        findings=tuple(_finding(item) for item in data["findings"]),
        suppressed=tuple(Suppressed(**item) for item in data["suppressed"]),
    )


def _finding(data: dict[str, Any]) -> Finding:
    start, end = Position(data["line"], data["column"]), Position(data["end_line"], data["end_column"])
    fix = data["fix"]
    return Finding(
        rule=data["rule"],
        name=data["name"],
        span=Span(data["path"], start, end),
        severity=Severity(data["severity"]),
        confidence=Confidence(data["confidence"]),
        message=data["message"],
        evidence=tuple(Evidence(**step) for step in data["evidence"]),
        fix=Fix(fix["title"], fix["applicability"], tuple(_edit(edit) for edit in fix["edits"])) if fix else None,
    )


def _edit(data: dict[str, Any]) -> Edit:
    return Edit(Span(data["path"], Position(**data["start"]), Position(**data["end"])), data["text"])
