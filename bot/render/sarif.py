"""Findings as SARIF 2.1.0, the form that code scanning reads."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from analyzer.findings import Finding, Report, Span

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def report_sarif(report: Report, version: str, pages: dict[str, str]) -> dict[str, Any]:
    """The log; `pages` are the rules' Markdown pages by code. SARIF columns are 1-based code points."""
    names = {finding.rule: finding.name for finding in report.findings}
    rules = [
        {"id": code, "name": name, "help": {"text": pages.get(code, name), "markdown": pages.get(code, name)}}
        for code, name in sorted(names.items())
    ]
    driver = {"name": "preflight", "version": version, "rules": rules}
    notes = [
        {"level": "note", "message": {"text": f"{item.path}: {item.reason}"}, "locations": [_file(item.path)]}
        for item in report.skipped
    ]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "results": [_result(finding) for finding in report.findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _file(path: str) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": quote(path)}}}


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.start.line,
        "startColumn": span.start.column + 1,
        "endLine": span.end.line,
        "endColumn": span.end.column + 1,
    }


def _result(finding: Finding) -> dict[str, Any]:
    location = _file(finding.path)
    location["physicalLocation"]["region"] = _region(finding.span)
    related = []
    for step in finding.evidence:
        place = _file(step.path)
        place["physicalLocation"]["region"] = {"startLine": step.line, "startColumn": step.column + 1}
        related.append({**place, "message": {"text": step.note}})
    return {
        "ruleId": finding.rule,
        "level": finding.severity.value,
        "message": {"text": finding.message},
        "locations": [location],
        "relatedLocations": related,
        "properties": {"confidence": finding.confidence.value},
    }
