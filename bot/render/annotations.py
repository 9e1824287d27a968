"""Findings as GitHub Actions workflow commands (``::error file=…``)."""

from __future__ import annotations

from analyzer.findings import Finding, Report

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def report_commands(report: Report) -> str:
    """One line per finding and per skipped file; columns are 1-based there."""
    lines = [_command(finding) for finding in report.findings]
    lines += [
        f"::notice file={_property(item.path)},title=Preflight skipped this file::{_data(item.reason)}"
        for item in report.skipped
    ]
    return "\n".join(lines)


def _command(finding: Finding) -> str:
    start, end = finding.span.start, finding.span.end
    place = f"file={_property(finding.path)},line={start.line},endLine={end.line}"
    if start.line == end.line:
        place += f",col={start.column + 1},endColumn={max(end.column, start.column + 1)}"
    title = _property(f"{finding.rule} {finding.name}")
    return f"::{_LEVELS[finding.severity.value]} {place},title={title}::{_data(finding.message)}"
