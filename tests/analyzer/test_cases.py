"""Every case of every Markdown file under ``tests/cases``, and that every rule has some."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer import catalogue
from analyzer.api import Options, analyze
from analyzer.findings import Confidence, Severity
from tests.analyzer.mdcases import Case, cases_in

CASES_DIR = Path(__file__).parents[1] / "cases"
CASES = [
    pytest.param(case, document.parent.name, id=f"{document.parent.name}/{document.stem}: {case.title}")
    for document in sorted(CASES_DIR.rglob("*.md"))
    for case in cases_in(document)
]


@pytest.mark.parametrize(("case", "folder"), CASES)
def test_case(case: Case, folder: str) -> None:
    targets = [path for path in case.paths() if path.endswith(".py")]
    report = analyze(case, targets, Options(min_confidence=Confidence.LIKELY))
    own = {rule for _, _, rule, _ in case.expected()} | {folder}
    found = sorted(
        (item.path, item.line, item.rule, item.severity.value)
        for item in report.findings
        if item.severity is not Severity.NOTE or item.rule in own  # untuned loaders are the business of their own cases
    )
    assert found == case.expected()
    assert report.skipped == ()
    assert all(item.evidence for item in report.findings)


@pytest.mark.parametrize("rule", catalogue.rules(), ids=lambda rule: rule.code)
def test_every_rule_has_cases_that_fire_and_that_stay_quiet(rule: type) -> None:
    code = rule.code  # type: ignore[attr-defined]
    cases = [case for document in sorted(CASES_DIR.glob(f"{code}/*.md")) for case in cases_in(document)]
    assert any(expected[2] == code for case in cases for expected in case.expected())
    assert any(not case.expected() for case in cases)
