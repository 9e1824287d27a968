"""The document behind a check's link: the lines that a finding needs, no others, and never too much of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bot.core import details
from bot.core.excerpts import MAX_LINES, MAX_WIDTH
from bot.core.plan_json import plan_from_json, plan_to_json
from tests.bot.pages.pages import FILES, TRAIN, document_of, plan_of


def shown(finding: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The rows of the finding's own file, by line."""
    rows = [row for part in finding["code"] if part["path"] == finding["path"] for row in part["lines"]]
    return {row["number"]: row for row in rows}


def test_each_step_of_the_evidence_stands_at_its_line() -> None:
    document = document_of({"train.py": "# one\n" * 40 + TRAIN})
    assert document["findings"]
    for finding in document["findings"]:
        rows = shown(finding)
        assert rows[finding["line"]]["is_finding"]
        for number, step in enumerate(finding["evidence"], 1):
            assert number in rows[step["line"]]["steps"]
        assert min(rows) > 30  # and not the file


def test_a_fix_is_shown_as_the_lines_it_changes() -> None:
    fixes = [item["fix"] for item in document_of()["findings"] if item["fix"] and item["rule"] == "PF101"]
    texts = [row["text"] for fix in fixes for row in fix["rows"] if row["sign"] == "+"]
    assert any("losses.append(loss.detach())" in text for text in texts)


def test_of_a_notebook_the_cell_is_shown_and_not_the_file() -> None:
    cells = [{"cell_type": "markdown", "source": ["# Train"]}, {"cell_type": "code", "source": TRAIN}]
    raw = json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}, indent=1)
    found = [item for item in document_of({"train.ipynb": raw})["findings"] if item["rule"] == "PF101"]
    assert found
    assert {part["cell"] for part in found[0]["code"]} == {2}
    texts = [row["text"] for part in found[0]["code"] for row in part["lines"] if row["is_finding"]]
    assert texts == ["    losses.append(loss)"]


def test_lines_and_excerpts_have_an_end() -> None:
    long = TRAIN.replace("losses.append(loss)", "losses.append(loss)  # " + "x" * 50_000)
    for finding in document_of({"train.py": long})["findings"]:
        rows = [row for part in finding["code"] for row in part["lines"]]
        assert len(rows) <= MAX_LINES
        assert max(len(row["text"]) for row in rows) <= MAX_WIDTH


def test_a_report_that_would_be_too_large_loses_code_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "MAX_BYTES", 66_000)
    monkeypatch.setattr(details, "MAX_FINDINGS", 50)
    head, _, loop = TRAIN.partition("losses = []\n")
    loops = (f"losses{number} = []\n{loop.replace('losses', f'losses{number}')}" for number in range(30))
    document = document_of(FILES | {"train.py": head + "".join(loops)})
    assert details.size(document) <= 66_000
    assert document["num_findings"] > len(document["findings"]) == 50
    has_code = [bool(item["code"]) for item in document["findings"]]
    assert has_code[0]
    assert not has_code[-1]
    assert has_code == sorted(has_code, reverse=True)  # the most severe keep theirs
    assert document["is_cut"]
    assert document["launches"]


@pytest.mark.parametrize("text", ["\ud800", "\x00", "é\u202e", "\r\n"])
def test_whatever_a_file_holds_travels_between_processes(text: str) -> None:
    plan = plan_of({"train.py": TRAIN.replace("alert(1)", f"alert{text}(1)")})
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan
