"""The report behind a check run's link, as one JSON document: what a person wants to read who asks "why?".

Pure, bounded in size, and everything in it is plain text: `bot.render.pages` escapes when it shows it. Code of the
repository is in it (the lines a finding needs), so it is stored with an expiry and shown to those alone who may read
the repository.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from analyzer.findings import Finding, Skipped
from bot import catalogue
from bot.core.config_text import Problem
from bot.core.examine import Code, Failed, Memory
from bot.core.excerpts import Texts, change, excerpt
from bot.core.placing import Placed
from bot.core.plan import CheckOutcome
from bot.core.review_input import ReviewInput
from bot.core.traits import framework, pattern
from estimator.api import Estimate, Impact

VERSION = 1
MAX_BYTES = 768 * 1024
"""Of the JSON text; about a tenth of it compressed."""
MAX_FINDINGS = 200
MAX_LAUNCHES = 30
MAX_LISTED = 100
_MAX_WORDS = 60
_MAX_TEXT = 600

Document = dict[str, Any]


def details(
    given: ReviewInput,
    checks: Iterable[CheckOutcome],
    code: Code | Failed,
    memory: Memory | Failed,
    placed: Sequence[Placed],
    problems: Sequence[Problem],
) -> Document:
    """The document. What does not fit into `MAX_BYTES` loses its code first, then its launch configs."""
    snapshot, texts = given.snapshot, Texts(given.head.read)
    document: Document = {
        "version": VERSION,
        "repo": snapshot.full_name,
        "repo_id": snapshot.repo_id,
        "number": snapshot.number,
        "title": snapshot.title[:_MAX_TEXT],
        "head_sha": snapshot.head_sha,
        "web_url": given.web_url,
        "checks": [
            {"name": item.name, "conclusion": item.conclusion, "state": item.state, "title": item.title}
            for item in checks
        ],
        "findings": [_finding(item, given, texts) for item in placed[:MAX_FINDINGS]],
        "num_findings": len(placed),
        "problems": [f"{item.path}:{item.line} {item.message}"[:_MAX_TEXT] for item in problems[:MAX_LISTED]],
        "rules": _rules({item.finding.rule for item in placed[:MAX_FINDINGS]}),
        **_code(code, texts),
        **_memory(memory),
    }
    return _bounded(document)


def _finding(item: Placed, given: ReviewInput, texts: Texts) -> Document:
    finding = item.finding
    fix = finding.fix
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "message": finding.message[: 4 * _MAX_TEXT],
        "path": finding.path,
        "line": finding.line,
        "cell": finding.cell.number if finding.cell else None,
        "cell_line": finding.cell.start.line if finding.cell else None,
        "where": item.where,
        "fingerprint": item.fingerprint,
        "evidence": [
            {"path": step.path, "line": step.line, "note": step.note[:_MAX_TEXT], "cell": _cell(step.cell)}
            for step in finding.evidence[:_MAX_WORDS]
        ],
        "code": excerpt(finding, texts),
        "fix": {"title": fix.title, "applicability": fix.applicability, "rows": change(finding, given.head.read)}
        if fix
        else None,
        "framework": framework(texts.text(finding.path)),
        "pattern": pattern(finding.message),
    }


def _rules(codes: Collection[str]) -> Document:
    """What the rules' own pages say, by code; for the person who meets a rule for the first time."""
    found = {}
    for rule in catalogue.all_rules():
        if rule.code in codes:
            parts = [part.partition("\n") for part in f"\n{rule.page}".split("\n## ")[1:]]
            sections = {title.strip(): body.strip() for title, _, body in parts}
            shown = {key: sections[key] for key in ("Why it matters", "When it stays quiet") if key in sections}
            found[rule.code] = {"name": rule.name, "summary": rule.summary, "sections": shown}
    return found


def _cell(cell: Any) -> list[int] | None:
    return [cell.number, cell.start.line] if cell else None


def _code(code: Code | Failed, texts: Texts) -> Document:
    if isinstance(code, Failed):
        return {"code_failed": code.what, "num_files": 0, "possible": [], "suppressed": [], "skipped": []}
    return {
        "code_failed": None,
        "num_files": code.num_files,
        "possible": [_possible(item) for item in code.possible[:MAX_LISTED]],
        "suppressed": [
            {**item.to_json(), "framework": framework(texts.text(item.path))} for item in code.suppressed[:MAX_LISTED]
        ],
        "skipped": [_skipped(item) for item in code.skipped[:MAX_LISTED]],
    }


def _possible(finding: Finding) -> Document:
    message = finding.message[:_MAX_TEXT]
    return {"rule": finding.rule, "path": finding.path, "line": finding.line, "message": message}


def _skipped(item: Skipped) -> Document:
    return {**item.to_json(), "reason": item.reason[:_MAX_TEXT]}


def _memory(memory: Memory | Failed) -> Document:
    if isinstance(memory, Failed):
        return {"memory_failed": memory.what, "launches": [], "notes": []}
    shown = [(impact, impact.head) for impact in memory.impacts if impact.head is not None]
    order = ("exceeds", "borderline", "unknown", "fits")
    shown.sort(key=lambda item: order.index(item[0].verdict))
    return {
        "memory_failed": None,
        "launches": [_launch(impact, head) for impact, head in shown[:MAX_LAUNCHES]],
        "notes": [_skipped(item) for item in memory.notes[:MAX_LISTED]],
    }


def _launch(impact: Impact, head: Estimate) -> Document:
    before = impact.base.to_json() if impact.base is not None else None
    return {
        "path": impact.path,
        "line": impact.line,
        "command": [word[:_MAX_TEXT] for word in impact.command[:_MAX_WORDS]],
        "verdict": impact.verdict,
        "moved": [text[:_MAX_TEXT] for text in impact.moved],
        "num_readings": max(1, len(impact.readings)),
        "estimate": _estimate(head),
        "before": {"peak_gib": before["peak_gib"], "verdict": before["verdict"]} if before else None,
        "run": dict(impact.run) if impact.run is not None else None,
    }


def _estimate(head: Estimate) -> Document:
    """The page draws the moments and explains the largest: formulas of the others would take other launches' room."""
    document = head.to_json()
    for moment in document["timeline"]:
        moment["terms"] = [{"name": term["name"], "gib": term["gib"]} for term in moment["terms"]]
    return document


def size(document: Document) -> int:
    """Bytes of the JSON text."""
    return len(json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _bounded(document: Document) -> Document:
    """Least important last: code of the least severe findings goes first, then the least pressing launch configs."""
    left = size(document) - MAX_BYTES
    for part, bare in (("findings", {"code": [], "fix": None}), ("launches", None), ("possible", None)):
        items: list[Document] = document[part]
        for index in range(len(items) - 1, -1, -1):
            if left <= 0:
                return document
            before = size(items[index])
            if bare is None:
                del items[index]
                left -= before
            else:
                items[index] = {**items[index], **bare}
                left -= before - size(items[index])
            document["is_cut"] = True
    return document
