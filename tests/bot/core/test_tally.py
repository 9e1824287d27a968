"""One outcome for each finding of a closed pull request, the same however often it is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.core.ledger import Dismissal, Ignored, Ledger, Posted
from bot.core.lifecycle import Thread
from bot.core.tally import Kind, rows, tally

KIND = Kind("PF101", "torch", "keeps the graph")
OPEN = Posted(
    fingerprint="aa", rule="PF101", path="train.py", line=3, severity="error", where="comment", status="open",
    head_sha="c" * 40,
)  # fmt: skip
FIXED = replace(OPEN, status="fixed")
EXCUSED = replace(OPEN, status="dismissed")
DISMISSAL = Dismissal(
    fingerprint="aa", rule="PF101", path="train.py", line=3, reason="no", who="dana", when="", head_sha=""
)
IGNORED = Ignored(rule="PF101", reason="no", who="dana", when="", head_sha="")


@pytest.mark.parametrize(
    ("ledger", "hidden", "is_merged", "outcome"),
    [
        (Ledger(posted=(OPEN,)), [], True, "kept"),
        (Ledger(posted=(OPEN,)), [], False, "abandoned"),
        (Ledger(posted=(FIXED,)), [], True, "fixed"),
        (Ledger(posted=(FIXED,)), [("PF101", "train.py", "torch")], True, "suppressed"),
        (Ledger(posted=(EXCUSED,)), [("PF101", "train.py", "torch")], True, "suppressed"),
        (Ledger(posted=(EXCUSED,)), [], True, "dismissed"),
        (Ledger(posted=(FIXED,), dismissals=(DISMISSAL,)), [], True, "dismissed"),
        (Ledger(posted=(OPEN,), ignores=(IGNORED,)), [], True, "dismissed"),
    ],
)
def test_a_finding_has_one_outcome(
    ledger: Ledger, hidden: list[tuple[str, str, str]], is_merged: bool, outcome: str
) -> None:
    counts = tally(ledger, [], {"aa": KIND}, hidden, is_merged=is_merged)
    assert counts == {(KIND, "findings"): 1, (KIND, outcome): 1}


def test_one_comment_hides_one_finding_and_the_other_was_fixed() -> None:
    other = replace(EXCUSED, fingerprint="bb", line=9)
    counts = tally(Ledger(posted=(EXCUSED, other)), [], {}, [("PF101", "train.py", "torch")], is_merged=True)
    kind = Kind("PF101")
    assert counts == {(kind, "findings"): 2, (kind, "suppressed"): 1, (kind, "fixed"): 1}


def test_what_was_hidden_before_it_was_said_is_counted_too() -> None:
    hidden = [("PF101", "train.py", "torch"), ("PF101", "train.py", "torch")]
    counts = tally(Ledger(posted=(FIXED,)), [], {"aa": KIND}, hidden, is_merged=True)
    assert sum(number for (_, metric), number in counts.items() if metric == "findings") == 2
    assert sum(number for (_, metric), number in counts.items() if metric == "suppressed") == 2


def test_reactions_belong_to_the_finding_of_their_comment() -> None:
    body = "<!-- preflight:fingerprint=aa -->\n**PF101 x**"
    thread = Thread(id="1", comment_id="2", path="train.py", line=3, body=body, up=2, down=1)
    other = replace(thread, body="<!-- preflight:fingerprint=bb -->", up=9)
    counts = tally(Ledger(posted=(OPEN,)), [thread, other], {"aa": KIND}, [], is_merged=True)
    assert counts[KIND, "up"] == 2
    assert counts[KIND, "down"] == 1


def test_after_a_flush_the_rule_is_still_known() -> None:
    assert tally(Ledger(posted=(FIXED,)), [], {}, [], is_merged=True)[Kind("PF101"), "fixed"] == 1


def test_the_noisiest_rule_stands_first_and_shares_leave_out_what_was_abandoned() -> None:
    counted = [
        ("PF101", "findings", 10), ("PF101", "fixed", 8), ("PF101", "kept", 2),
        ("PF206", "findings", 5), ("PF206", "dismissed", 2), ("PF206", "suppressed", 1), ("PF206", "abandoned", 1),
        ("PF206", "fixed", 1), ("PF404", "findings", 1), ("PF404", "abandoned", 1),
    ]  # fmt: skip
    found = rows(counted)  # type: ignore[arg-type]
    assert [(row.name, row.useful, row.noise) for row in found] == [
        ("PF206", 0.25, 0.75),
        ("PF101", 0.8, 0.0),
        ("PF404", None, None),
    ]
