"""One pull request in, one plan out: what is said, where, and what it does to the checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from analyzer.api import Files, Options
from analyzer.findings import Confidence, Edit, Evidence, Finding, Fix, Position, Report, Severity, Skipped, Span
from bot.core.config import Config
from bot.core.external_id import ExternalId, external_id, parse_external_id
from bot.core.fingerprint import fingerprints
from bot.core.introduced import introduced
from bot.core.ledger import Ignored, Ledger, ignoring
from bot.core.plan import Plan
from bot.core.plan_json import plan_from_json, plan_to_json, review_input_from_json, review_input_to_json
from bot.core.review import Engines, MemoryTree, ReviewInput, review
from bot.core.review_input import Unread
from bot.sources.base import ChangedFile, PullSnapshot

HEAD = "b" * 40


def stores(path: str, text: str) -> list[Finding]:
    """A rule for these tests: every line with ``append(loss)`` keeps a graph."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        at = line.find("append(loss)")
        if at >= 0:
            where = Position(number, at + 11)
            edit = Edit(Span(path, where, where), ".detach()")
            span = Span(path, Position(number, at + 7), where)
            why = (Evidence(path, number, at, "stored here"),)
            found.append(
                Finding(
                    rule="PF101",
                    name="graph-retention",
                    span=span,
                    severity=Severity.ERROR,
                    confidence=Confidence.POSSIBLE if "maybe" in line else Confidence.CERTAIN,
                    message="`loss` keeps its graph",
                    evidence=why,
                    fix=Fix("Detach", "safe", (edit,)),
                )
            )
    return found


def analyze(files: Files, targets: Sequence[str], options: Options | None) -> Report:
    findings: list[Finding] = []
    skipped = []
    for path in targets:
        text = (files.read(path) or b"").decode()
        findings += stores(path, text)
        skipped += [Skipped(path, "syntax error at 1:0")] if text.startswith("def(") else []
    return Report(num_files=len(targets), skipped=tuple(skipped), findings=tuple(findings))


def nothing(*_: object) -> tuple[Any, ...]:
    return ()


def no_finding(_: object) -> None:
    return None


def broken(*_: object) -> Any:
    raise ZeroDivisionError


ENGINES = Engines(analyze=analyze, affected=nothing, impact_finding=no_finding)


def given(
    head: Mapping[str, str], base: Mapping[str, str], patches: Mapping[str, str | None], **more: Any
) -> ReviewInput:
    files = tuple(
        ChangedFile(path=path, status="modified" if path in base else "added", patch=patch)
        for path, patch in patches.items()
    )
    snapshot = PullSnapshot(
        repo_id=1,
        full_name="o/r",
        number=3,
        author="ann",
        title="t",
        is_draft=more.pop("is_draft", False),
        is_open=True,
        base_ref="main",
        base_sha="c" * 40,
        head_sha=HEAD,
        merge_base_sha="c" * 40,
        changed_files=files,
    )
    trees = [MemoryTree({path: text.encode() for path, text in tree.items()}) for tree in (head, base)]
    return ReviewInput(snapshot=snapshot, head=trees[0], base=trees[1], **more)


OLD = "a = 1\nx.append(loss)\n"
NEW = "a = 1\nx.append(loss)\ny.append(loss)\n"
ONE = given({"t.py": NEW}, {"t.py": OLD}, {"t.py": "@@ -1,2 +1,3 @@\n a = 1\n x.append(loss)\n+y.append(loss)"})


def code_check(plan: Plan) -> tuple[str, str]:
    return plan.checks[0].conclusion, plan.checks[0].state


def test_a_baseline_of_the_base_branch_hides_and_one_of_the_head_does_not() -> None:
    (new,) = review(ONE, ENGINES).standing
    entry = {"path": "t.py", "rule": "PF101", "fingerprint": new, "message": ""}
    text = json.dumps({"version": 1, "findings": [entry]})
    for side, left in (("base", 0), ("head", 1)):
        trees = {"head": {"t.py": NEW}, "base": {"t.py": OLD}}
        trees[side]["b.json"] = text
        patches = {"t.py": "@@ -1,2 +1,3 @@\n a = 1\n x.append(loss)\n+y.append(loss)"}
        asked = given(trees["head"], trees["base"], patches, config=Config(baseline="b.json"))
        asked = review_input_from_json(json.loads(json.dumps(review_input_to_json(asked))))
        assert len(review(asked, ENGINES).standing) == left
    broken_one = given({"t.py": NEW}, {"t.py": OLD, "b.json": "{"}, patches, config=Config(baseline="b.json"))
    assert len(review(broken_one, ENGINES).standing) == 1


def test_a_notebook_is_reviewed() -> None:
    raw = json.dumps({"cells": [{"cell_type": "code", "source": ["x.append(loss)"]}]}, indent=1)
    patch = "@@ -0,0 +1,9 @@\n" + "\n".join(f"+{line}" for line in raw.split("\n"))
    plan = review(given({"a.ipynb": raw}, {}, {"a.ipynb": patch}), ENGINES)
    assert [(item.path, item.line) for item in plan.comments] == [("a.ipynb", 6)]


def test_only_what_is_introduced_is_said_with_a_change_that_applies() -> None:
    plan = review(ONE, ENGINES)
    assert [(comment.line, comment.start_line) for comment in plan.comments] == [(3, None)]
    assert "```suggestion\ny.append(loss.detach())\n```" in plan.comments[0].body
    assert f"/o/r/blob/{HEAD}/t.py#L3" in plan.comments[0].body
    assert plan.comments[0].body.startswith(f"<!-- preflight:fingerprint={plan.comments[0].fingerprint} -->")
    assert code_check(plan) == ("neutral", "exceeds")
    assert plan.summary is not None


def test_the_plan_and_its_input_survive_json_and_restart() -> None:
    plan = review(ONE, ENGINES)
    again = review_input_from_json(json.loads(json.dumps(review_input_to_json(ONE))))
    assert plan == review(again, ENGINES)
    assert plan == plan_from_json(json.loads(json.dumps(plan_to_json(plan))))


def test_nothing_is_said_twice() -> None:
    first = review(ONE, ENGINES)
    shifted = given(
        {"t.py": "# more\n\n" + NEW},
        {"t.py": OLD},
        {"t.py": "@@ -1,2 +1,5 @@\n+# more\n+\n a = 1\n x.append(loss)\n+y.append(loss)"},
        ledger=Ledger(posted=first.posted or ()),
    )
    again = review(shifted, ENGINES)
    assert again.comments == ()
    assert again.standing == first.standing
    assert code_check(again) == ("neutral", "exceeds")


def test_a_clean_pull_request_is_quiet_and_green() -> None:
    plan = review(given({"t.py": OLD + "b = 2\n"}, {"t.py": OLD}, {"t.py": "@@ -2 +2,2 @@\n x\n+b = 2"}), ENGINES)
    assert (plan.comments, plan.summary, plan.review_body) == ((), None, "")
    assert {"success"} == {check.conclusion for check in plan.checks}


@pytest.mark.parametrize(
    ("config", "expected", "level"),
    [
        (Config(), "neutral", None),
        (Config(code="warn"), "neutral", "warning"),
        (Config(code="block"), "failure", "failure"),
    ],
)
def test_the_mode_decides_what_an_error_does(config: Config, expected: str, level: str | None) -> None:
    check = review(given({"t.py": NEW}, {}, {"t.py": "@@ -0,0 +1,3 @@\n+a\n+b\n+c"}, config=config), ENGINES).checks[0]
    assert check.conclusion == expected
    assert ({level} if level else set()) == {note.level for note in check.annotations}


def test_nothing_is_lost_outside_the_diff_and_over_the_limit() -> None:
    text = "x.append(loss)\n" * 4
    patch = "@@ -0,0 +1,3 @@\n+a\n+a\n+a"
    plan = review(given({"t.py": text}, {}, {"t.py": patch}, config=Config(max_inline=1)), ENGINES)
    assert len(plan.comments) == 1
    assert [note.start_line for note in plan.checks[0].annotations] == [2, 3, 4]
    assert "over the limit" in (plan.summary or "")
    assert "outside the diff" in (plan.summary or "")
    assert len(set(plan.standing)) == 4


@pytest.mark.parametrize(
    ("engines", "states"),
    [
        (Engines(broken, nothing, no_finding), ["failed", "ok"]),
        (Engines(analyze, broken, no_finding), ["exceeds", "failed"]),
    ],
)
def test_a_broken_engine_takes_down_only_its_own_check(engines: Engines, states: list[str]) -> None:
    plan = review(ONE, engines)
    assert states == [check.state for check in plan.checks]
    assert {"neutral"} >= {check.conclusion for check in plan.checks if check.state == "failed"}


def test_a_draft_is_skipped_and_an_unreadable_file_is_named() -> None:
    draft = review(given({"t.py": NEW}, {}, {"t.py": None}, is_draft=True), ENGINES)
    assert {("skipped", "skipped")} == {(check.conclusion, check.state) for check in draft.checks}
    bad = given({"t.py": "def(\n", "u.py": NEW}, {}, {"t.py": None, "u.py": None}, skip={"u.py": "killed a worker"})
    check = review(bad, ENGINES).checks[0]
    assert (check.conclusion, check.state) == ("neutral", "unknown")
    assert "killed a worker" in check.summary
    assert "syntax error" in check.summary


def test_possible_findings_are_folded_away() -> None:
    plan = review(given({"t.py": "maybe.append(loss)\n"}, {}, {"t.py": "@@ -0,0 +1 @@\n+x"}), ENGINES)
    assert (plan.comments, plan.summary) == ((), None)
    assert "1 less certain" in plan.checks[0].text


def test_what_was_not_read_of_the_repository_is_said() -> None:
    small = given({"t.py": "x = 1\n"}, {"t.py": "x = 0\n"}, {"t.py": "@@ -1 +1 @@\n-x = 0\n+x = 1"})
    assert "Not read" not in review(small, ENGINES).checks[0].summary
    large = replace(small, unread_head=Unread(code=1_501), unread_base=Unread(texts=2))
    said = review(review_input_from_json(json.loads(json.dumps(review_input_to_json(large)))), ENGINES).checks[0]
    assert said.conclusion == "success"
    assert "Not read: 1,501 files of code" in said.summary
    assert "Not read: 2 configuration files" in said.summary
    seen = []

    def asked(files: Files, targets: Sequence[str], options: Options | None) -> Report:
        seen.append(options is not None and options.has_all_texts)
        return analyze(files, targets, options)

    review(replace(ONE, unread_base=Unread(texts=1)), replace(ENGINES, analyze=asked))
    assert seen == [True, False]


def test_hostile_names_stay_text() -> None:
    path = "a|b`@ann\u202e.py"
    plan = review(given({path: NEW}, {}, {path: None}), ENGINES)
    text = (plan.summary or "") + plan.checks[0].summary + plan.checks[0].annotations[0].message
    assert "\u202e" not in text


Reader = Callable[[str], "bytes | None"]


def difference(head: str, base: str, renames: Mapping[str, str] | None = None) -> list[int]:
    moved = renames or {}
    head_files = MemoryTree({"t.py": head.encode()})
    base_files = MemoryTree({moved.get("t.py", "t.py"): base.encode()})
    return [
        finding.line
        for finding in introduced(
            analyze(head_files, ["t.py"], None),
            analyze(base_files, list(base_files.paths()), None),
            head_files.read,
            base_files.read,
            moved,
        )
    ]


@pytest.mark.parametrize(
    ("head", "base", "expected"),
    [
        ("\n\n# c\nx.append(loss)  # why\n", "x.append(loss)\n", []),
        ("if a:\n    x.append(loss)\n", "x.append(loss)\n", []),
        ("b = 1\nx.append(loss)\na = 1\nx.append(loss)\n", "a = 1\nx.append(loss)\n", [2]),
        ("y.append(loss)\n", "x.append(loss)\n", [1]),
        ("x = (\n", "", []),
    ],
)
def test_introduced_counts_statements_not_lines(head: str, base: str, expected: list[int]) -> None:
    assert expected == difference(head, base)
    assert expected == difference(head, base, {"t.py": "old.py"})


def test_fingerprints_tell_twins_apart_and_follow_renames() -> None:
    read: Reader = {"t.py": b"x.append(loss)\nx.append(loss)\n", "new.py": b"x.append(loss)\n"}.get
    one, two = fingerprints(stores("t.py", "x.append(loss)\nx.append(loss)\n"), read, {})
    (moved,) = fingerprints(stores("new.py", "x.append(loss)\n"), read, {"new.py": "t.py"})
    assert one != two
    assert one == moved


def test_external_ids_round_trip() -> None:
    text = external_id(1, 2, HEAD, 3, "exceeds")
    assert text == f"1:2:{HEAD}:3:exceeds"
    assert parse_external_id(text) == ExternalId(repo_id=1, number=2, sha=HEAD, generation=3, state="exceeds")
    assert parse_external_id(external_id(1, 2, HEAD, 3)) is not None
    assert all(parse_external_id(bad) is None for bad in (None, "", "1:2:x:3:ok", text + "x"))


def test_the_affected_launches_see_every_changed_path() -> None:
    seen: list[Collection[str]] = []

    def affected(*arguments: Any) -> tuple[Any, ...]:
        seen.append(arguments[2])
        return ()

    review(ONE, Engines(analyze, affected, no_finding))
    assert seen == [{"t.py"}]


def _with_cause(at: int) -> Engines:
    """A finding on line 2, which an earlier line causes."""

    def caused(files: Files, targets: Sequence[str], options: Options | None) -> Report:
        report = analyze(files, targets, options)
        why = (Evidence("t.py", at, 0, "this is why"),)
        return replace(report, findings=tuple(replace(item, evidence=why, fix=None) for item in report.findings))

    return Engines(analyze=caused, affected=nothing, impact_finding=no_finding)


UNTOUCHED = given(
    {"t.py": "b = 2\nx.append(loss)\n"}, {"t.py": "a = 1\n"}, {"t.py": "@@ -1,2 +1,2 @@\n-a = 1\n+b = 2\n x"}
)


def test_a_finding_on_an_unchanged_line_is_said_at_the_change_that_causes_it() -> None:
    (comment,) = review(UNTOUCHED, _with_cause(1)).comments
    assert (comment.path, comment.line) == ("t.py", 1)
    assert "What this line changes goes wrong at [`t.py:2`]" in comment.body
    assert "reason` on line 2 of `t.py`" in comment.body  # an excuse on the comment's own line would hide nothing
    far = given(
        {"t.py": "b = 2\n\n\n\n\nx.append(loss)\n"},
        {"t.py": "a = 1\n"},
        {"t.py": "@@ -1,2 +1,3 @@\n-a = 1\n+b = 2\n \n "},
    )
    (comment,) = review(far, _with_cause(3)).comments
    assert comment.line == 1
    assert "What changes here appears to go wrong at [`t.py:6`]" in comment.body
    (comment,) = review(UNTOUCHED, _with_cause(2)).comments
    assert (comment.path, comment.line) == ("t.py", 2)
    assert "The pull request does not change this line; something" in comment.body
    assert "reason` on this line" in comment.body


def test_a_change_that_can_be_applied_stays_where_it_applies_and_names_the_cause() -> None:
    def caused(files: Files, targets: Sequence[str], options: Options | None) -> Report:
        report = analyze(files, targets, options)
        why = (Evidence("t.py", 1, 0, "this is why"),)
        return replace(report, findings=tuple(replace(item, evidence=why) for item in report.findings))

    (comment,) = review(UNTOUCHED, Engines(analyze=caused, affected=nothing, impact_finding=no_finding)).comments
    assert comment.line == 2
    assert "```suggestion" in comment.body
    assert "what it changes at [`t.py:1`]" in comment.body


def test_what_people_silenced_neither_counts_nor_is_said() -> None:
    first = review(ONE, ENGINES)
    assert first.posted is not None
    ledger = ignoring(Ledger(), Ignored(rule="PF101", reason="not now", who="dana", when="2026", head_sha=HEAD))
    plan = review(replace(ONE, ledger=ledger, config=Config(code="block")), ENGINES)
    assert (plan.comments, plan.checks[0].annotations) == ((), ())
    assert code_check(plan) == ("success", "ok")
    assert plan.posted is not None
    assert [item.status for item in plan.posted] == ["dismissed"]
    assert "`PF101` ignored by `dana`: not now" in (plan.summary or "")


def test_what_is_milder_than_wanted_is_an_annotation_and_not_a_comment() -> None:
    plan = review(replace(ONE, config=Config(severities={"PF101": Severity.NOTE})), ENGINES)
    assert plan.comments == ()
    assert [note.level for note in plan.checks[0].annotations] == ["notice"]
    assert "a note" in (plan.summary or "")
    loud = Config(severities={"PF101": Severity.NOTE}, min_inline=Severity.NOTE)
    assert len(review(replace(ONE, config=loud), ENGINES).comments) == 1


def test_a_later_push_does_not_turn_what_is_in_the_checks_into_comments() -> None:
    text = "x.append(loss)\n" * 4
    patch = "@@ -0,0 +1,4 @@\n+a\n+a\n+a\n+a"
    asked = given({"t.py": text}, {}, {"t.py": patch}, config=Config(max_inline=2))
    first = review(asked, ENGINES)
    assert first.posted is not None
    again = review(replace(asked, ledger=Ledger(posted=first.posted)), ENGINES)
    assert (len(first.comments), len(again.comments)) == (2, 0)
    two_fixed = given({"t.py": "x.append(loss)\n" * 2}, {}, {"t.py": patch}, config=Config(max_inline=2))
    kept = tuple(item for item in first.posted if item.where != "comment")
    last = review(replace(two_fixed, ledger=Ledger(posted=kept)), ENGINES)
    assert len(last.comments) == 2


def test_a_renamed_file_keeps_its_comments_although_every_push_before_added_it() -> None:
    patch = "@@ -0,0 +1,3 @@\n+a\n+b\n+c"
    first = review(given({"t.py": NEW}, {}, {"t.py": patch}), ENGINES)
    moved = given({"src/t.py": NEW}, {}, {"src/t.py": patch}, ledger=Ledger(posted=first.posted or ()))
    again = review(moved, ENGINES)
    assert again.comments == ()
    assert sorted(again.standing) == sorted(first.standing)


def test_what_a_change_breaks_in_a_file_that_it_does_not_touch_is_said_at_the_change() -> None:
    """The rule of this test: ``append(loss)`` in a file whose helper does not detach."""

    def across(files: Files, targets: Sequence[str], options: Options | None) -> Report:
        report = analyze(files, [path for path in targets if path != "helper.py"], options)
        is_broken = b"detach" not in (files.read("helper.py") or b"")
        why = (Evidence("helper.py", 2, 0, "the loss keeps its graph here"),)
        found = [replace(item, evidence=why, fix=None) for item in report.findings] if is_broken else []
        return replace(report, num_files=len(targets), findings=tuple(found))

    train = "from helper import compute\nx.append(loss)\n"
    good, bad = "def compute():\n    return loss.detach()\n", "def compute():\n    return loss\n"
    patch = "@@ -1,2 +1,2 @@\n def compute():\n-    return loss.detach()\n+    return loss"
    other = "import os\nx.append(loss)\n"
    asked = given(
        {"train.py": train, "helper.py": bad, "other.py": other},
        {"train.py": train, "helper.py": good, "other.py": other},
        {"helper.py": patch},
    )
    plan = review(asked, Engines(analyze=across, affected=nothing, impact_finding=no_finding))
    (comment,) = plan.comments
    assert (comment.path, comment.line) == ("helper.py", 2)
    assert "goes wrong at [`train.py:2`]" in comment.body
    assert "1 changed Python file and 1 unchanged one that import them" in plan.checks[0].summary
    assert plan.posted is not None
    assert [item.path for item in plan.posted] == ["train.py"]
