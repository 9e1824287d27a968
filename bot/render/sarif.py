"""A report as SARIF 2.1.0, the form that code scanning services read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any
from urllib.parse import quote

from analyzer.api import RuleFacts
from analyzer.findings import Edit, Evidence, Finding, Report, Skipped, Span
from bot.catalogue import all_rules
from bot.core.fingerprint import fingerprints

Json = dict[str, Any]
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_RANKS = {"certain": 95.0, "likely": 75.0, "possible": 40.0}  # 0 to 100: how much a reader should care first


def render(report: Report, read: Callable[[str], bytes | None]) -> Json:
    """One run. Lines and columns are 1-based there, in Unicode code points; ends stay exclusive."""
    marks = fingerprints(report.findings, read, {})
    rules = all_rules()
    numbers = {rule.code: number for number, rule in enumerate(rules)}
    run: Json = {
        "tool": {
            "driver": {
                "name": "Preflight",
                "version": metadata.version("preflight-bot"),
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [_not_analysed(item) for item in report.skipped],
            }
        ],
        "results": [
            _result(finding, numbers.get(finding.rule), mark)
            for finding, mark in zip(report.findings, marks, strict=True)
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: RuleFacts) -> Json:
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.page, "markdown": rule.page},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"tags": [rule.name, *([rule.alias] if rule.alias else [])]},
    }


def _result(finding: Finding, number: int | None, mark: str) -> Json:
    result: Json = {
        "ruleId": finding.rule,
        "level": finding.severity.value,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": {**_file(finding.path), "region": _region(finding.span)}}],
        "codeFlows": [{"threadFlows": [{"locations": list(_flow(finding))}]}],
        "relatedLocations": [_step(at, step) for at, step in enumerate(finding.evidence)],
        "partialFingerprints": {"preflight/v1": mark},
        "rank": _RANKS[finding.confidence.value],
        "properties": {"confidence": finding.confidence.value},
    }
    if finding.cell:
        result["properties"] |= {"cell": finding.cell.number, "cellLine": finding.cell.start.line}
    if number is not None:  # a third party's rule has no description of ours
        result["ruleIndex"] = number
    if finding.fix:
        result["fixes"] = [{"description": {"text": finding.fix.title}, "artifactChanges": _changes(finding.fix.edits)}]
    return result


def _changes(edits: Iterable[Edit]) -> list[Json]:
    by_path: dict[str, list[Json]] = {}
    for edit in edits:
        change = {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}}
        by_path.setdefault(edit.span.path, []).append(change)
    return [{**_file(path), "replacements": changes} for path, changes in by_path.items()]


def _step(number: int, step: Evidence) -> Json:
    region = {"startLine": step.line, "startColumn": step.column + 1}
    place = {**_file(step.path), "region": region}
    return {"id": number, "physicalLocation": place, "message": {"text": step.note}}


def _flow(finding: Finding) -> Iterable[Json]:
    """The evidence in its order, then the finding itself."""
    steps = [_step(number, step) for number, step in enumerate(finding.evidence)]
    place = {**_file(finding.path), "region": _region(finding.span)}
    steps.append({"id": len(steps), "physicalLocation": place, "message": {"text": finding.message}})
    for number, step in enumerate(steps, 1):
        yield {
            "location": step,
            "executionOrder": number,
            "importance": "essential" if step is steps[-1] else "important",
        }


def _not_analysed(item: Skipped) -> Json:
    location = {"physicalLocation": _file(item.path)}
    what = "analysed in part" if item.partial else "not analysed"
    return {"level": "note", "message": {"text": f"{what}: {item.reason}"}, "locations": [location]}


def _file(path: str) -> Json:
    return {"artifactLocation": {"uri": quote(path, errors="surrogateescape")}}


def _region(span: Span) -> Json:
    return {
        "startLine": span.start.line,
        "startColumn": span.start.column + 1,
        "endLine": span.end.line,
        "endColumn": span.end.column + 1,
    }
