"""A report as SARIF, as workflow commands and for a terminal."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from analyzer.findings import Confidence, Edit, Evidence, Finding, Fix, Position, Report, Severity, Skipped, Span
from bot.catalogue import all_rules
from bot.core.reports import report_from_json
from bot.render import report_markdown, sarif, terminal
from bot.render.annotations import render as workflow_commands

SOURCE = "import torch\n\tkept.append(loss)  # 100%, really: yes\n"
HOSTILE = "evil\r\n::error::injected\x1b[31m, a:b%\u202e.py"


def finding(path: str = "train.py", message: str = "keeps `loss`", severity: Severity = Severity.ERROR) -> Finding:
    at, end = Position(2, 13), Position(2, 17)
    return Finding(
        rule="PF101",
        name="graph-retention",
        span=Span(path, at, end),
        severity=severity,
        confidence=Confidence.LIKELY,
        message=message,
        evidence=(Evidence(path, 1, 0, "imported"), Evidence("model.py", 7, 4, "the forward pass")),
        fix=Fix("Detach it", "safe", (Edit(Span(path, end, end), ".detach()"),)),
    )


def report(*findings: Finding, skipped: tuple[Skipped, ...] = ()) -> Report:
    return Report(num_files=2, skipped=skipped, findings=findings)


def read(path: str) -> bytes | None:
    return SOURCE.encode() if path == "train.py" else None


# --- SARIF ------------------------------------------------------------------------------------------------------

_SCHEMA = json.loads(gzip.decompress((Path(__file__).parents[2] / "data" / "sarif-2.1.0.json.gz").read_bytes()))
_VALIDATOR = jsonschema.Draft4Validator(_SCHEMA)


def sarif_run(given: Report) -> dict[str, Any]:
    log = json.loads(json.dumps(sarif.render(given, read)))
    assert [error.message for error in _VALIDATOR.iter_errors(log)] == []
    run: dict[str, Any] = log["runs"][0]
    return run


def test_sarif_has_rules_places_evidence_and_fixes() -> None:
    run = sarif_run(report(finding()))
    (result,) = run["results"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in all_rules()]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "PF101"
    assert all("## Why it matters" in rule["help"]["markdown"] for rule in rules)
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "train.py"
    assert place["region"] == {"startLine": 2, "startColumn": 14, "endLine": 2, "endColumn": 18}
    assert [step["message"]["text"] for step in result["relatedLocations"]] == ["imported", "the forward pass"]
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": ".detach()"}


def test_sarif_tells_the_evidence_as_a_code_flow_that_ends_at_the_finding() -> None:
    (result,) = sarif_run(report(finding()))["results"]
    ((thread,),) = (flow["threadFlows"] for flow in result["codeFlows"])
    steps = [step["location"] for step in thread["locations"]]
    assert [step["message"]["text"] for step in steps] == ["imported", "the forward pass", "keeps `loss`"]
    places = [step["physicalLocation"] for step in steps]
    assert [place["artifactLocation"]["uri"] for place in places] == ["train.py", "model.py", "train.py"]
    assert places[-1]["region"] == result["locations"][0]["physicalLocation"]["region"]
    assert [step["executionOrder"] for step in thread["locations"]] == [1, 2, 3]


def test_the_schema_of_sarif_is_not_toothless() -> None:
    log = sarif.render(report(finding()), read)
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert not _VALIDATOR.is_valid(log)


def test_sarif_fingerprints_tell_findings_apart_and_survive_a_shift() -> None:
    one, two = (item["partialFingerprints"] for item in sarif_run(report(finding(), finding()))["results"])
    assert one != two
    moved = SOURCE.replace("import torch\n", "import torch\n\n\n")
    span = Span("train.py", Position(4, 13), Position(4, 17))
    again = sarif.render(report(replace(finding(), span=span)), lambda path: moved.encode())
    assert again["runs"][0]["results"][0]["partialFingerprints"] == one


def test_sarif_names_what_was_not_analysed_and_quotes_paths() -> None:
    given = report(finding("a b/ü#?.py"), skipped=(Skipped("odd\udcff.py", "syntax error at 3:7"),))
    run = sarif_run(given)
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "not analysed: syntax error at 3:7"
    uris = [note["locations"][0], run["results"][0]["locations"][0]]
    assert [item["physicalLocation"]["artifactLocation"]["uri"] for item in uris] == [
        "odd%FF.py",
        "a%20b/%C3%BC%23%3F.py",
    ]


# --- workflow commands ------------------------------------------------------------------------------------------


def test_a_workflow_command_has_the_place_and_the_evidence() -> None:
    assert workflow_commands(report(finding(severity=Severity.NOTE))) == (
        "::notice file=train.py,line=2,endLine=2,col=14,endColumn=17,title=PF101 graph-retention (likely)"
        "::keeps `loss`%0Atrain.py:1: imported%0Amodel.py:7: the forward pass%0Afix (safe): Detach it\n"
    )


@pytest.mark.parametrize(
    ("given", "end"),
    [
        (report(finding(path=HOSTILE)), "(likely)"),
        (report(finding(message=HOSTILE)), "(likely)"),
        (report(skipped=(Skipped(HOSTILE, HOSTILE),)), "title=not analysed"),
    ],
)
def test_nothing_breaks_out_of_a_workflow_command(given: Report, end: str) -> None:
    text = workflow_commands(given)
    assert text.count("\n") == 1
    assert text.split("::")[1].endswith(end)
    assert not {"\r", "\x1b", "\u202e"} & set(text)
    assert "%25" in text


# --- terminal ---------------------------------------------------------------------------------------------------


def lines(path: str, cell: int | None = None) -> list[str]:
    return SOURCE.splitlines() if path == "train.py" else []


def test_a_terminal_report_shows_place_line_evidence_and_fix() -> None:
    text = terminal.render(
        report(finding(), skipped=(Skipped("bad.py", "syntax error at 3:7"),)), lines, terminal.Style()
    )
    assert text.split("\n") == [
        "train.py:2:14: error PF101 graph-retention (likely) keeps `loss`",
        "    2 | \tkept.append(loss)  # 100%, really: yes",
        "      | \t            ^^^^",
        "  1:1: imported   import torch",
        "  model.py:7:5: the forward pass",
        "  fix: Detach it",
        "",
        "bad.py: skipped: syntax error at 3:7",
        "",
        "1 error in 2 files; 1 skipped",
    ]


PARTS = tuple(Skipped("nb.ipynb", f"cell {number}: a syntax error", partial=True) for number in range(8))
WHOLE = Skipped("bad.py", "syntax error at 3:7")


@pytest.mark.parametrize(
    ("skipped", "numbers", "words"),
    [
        (PARTS, "; 1 read in part", "1 file analysed in part"),
        ((WHOLE,), "; 1 skipped", "1 file not analysed"),
        ((WHOLE, *PARTS), "; 1 skipped, 1 read in part", "1 file not analysed, 1 in part"),
        ((Skipped("nb.ipynb", "no notebook"), *PARTS), "; 1 skipped", "1 file not analysed"),
    ],
)
def test_a_file_that_was_read_in_part_is_not_counted_as_skipped(
    skipped: tuple[Skipped, ...], numbers: str, words: str
) -> None:
    given = report(skipped=skipped)
    text = terminal.render(given, lines, terminal.Style())
    assert text.endswith(f"no findings in 2 files{numbers}")
    assert text.count(": skipped: ") == sum(not item.partial for item in skipped)
    shown = report_markdown.render(given)
    assert f"no findings in 2 files{numbers}\n" in shown
    assert f"<summary>{words}</summary>" in shown
    commands = workflow_commands(given)
    assert commands.count("title=not analysed::") == sum(not item.partial for item in skipped)
    assert commands.count("title=analysed in part::") == sum(item.partial for item in skipped)
    notes = sarif_run(given)["invocations"][0]["toolExecutionNotifications"]
    assert [note["message"]["text"].partition(":")[0] == "not analysed" for note in notes] == [
        not item.partial for item in skipped
    ]
    document = given.to_json()["skipped"]
    assert [item.get("partial", False) for item in document] == [item.partial for item in skipped]
    assert report_from_json(given.to_json()).skipped == skipped


def test_colour_only_where_it_is_asked_for() -> None:
    assert "\x1b" not in terminal.render(report(finding()), lines, terminal.Style())
    assert "\x1b[31merror\x1b[0m" in terminal.render(report(finding()), lines, terminal.Style(is_coloured=True))


def test_hostile_text_does_not_reach_the_terminal() -> None:
    text = terminal.render(report(finding(HOSTILE, HOSTILE)), lambda *_: [HOSTILE, HOSTILE], terminal.Style())
    assert not {"\r", "\x1b", "\u202e"} & set(text)
