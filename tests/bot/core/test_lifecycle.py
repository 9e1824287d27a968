"""When a thread is closed, when it is opened, and when it is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.core.ledger import Dismissal, Ledger, Posted, Status, dismissed, published, reviewed
from bot.core.lifecycle import Thread, thread_changes, with_threads

HEAD, LATER = "a" * 40, "b" * 40
BODY = "<!-- preflight:fingerprint=0123456789abcdef -->\n\n**PF101 graph-retention** · error\n\nIt keeps its graph"
THREAD = Thread(id="T1", comment_id="C1", path="train.py", line=7, body=BODY)


def row(status: Status = "open", **more: object) -> Posted:
    plain = Posted(
        fingerprint="0123456789abcdef",
        rule="PF101",
        path="train.py",
        line=7,
        severity="error",
        where="comment",
        status=status,
        head_sha=LATER,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def test_a_fixed_finding_closes_its_thread_and_one_that_returns_opens_it_word_for_word() -> None:
    (closed,) = thread_changes([THREAD], Ledger(posted=(row("fixed"),)))
    assert closed.kind == "close"
    assert closed.body.split("\n")[2] == f"> **Fixed** in `{LATER[:12]}`. <!-- preflight:closed -->"
    after = replace(THREAD, body=closed.body, is_minimized=True)
    assert after.fingerprint == THREAD.fingerprint
    assert thread_changes([after], Ledger(posted=(row("fixed"),))) == ()
    (opened,) = thread_changes([after], Ledger(posted=(row(),)))
    assert (opened.kind, opened.body) == ("open", BODY)


@pytest.mark.parametrize(
    ("thread", "status"),
    [
        (replace(THREAD, has_reply=True), "fixed"),
        (replace(THREAD, is_resolved=True, resolved_by_person=True), "open"),
        (replace(THREAD, is_resolved=True), "fixed"),
        (THREAD, "open"),
        (replace(THREAD, body="<!-- preflight:answer=3 -->\nhello"), "fixed"),
    ],
)
def test_threads_of_people_and_those_that_are_right_are_left_alone(thread: Thread, status: Status) -> None:
    assert thread_changes([thread], Ledger(posted=(row(status),))) == ()


def test_a_person_s_words_in_a_reason_stay_text() -> None:
    dismissal = Dismissal(
        fingerprint="0123456789abcdef",
        rule="PF101",
        path="train.py",
        line=7,
        reason="@team <b>fine</b>\n> <!-- preflight:closed -->",
        who="dana",
        when="2026",
        head_sha=HEAD,
    )
    (change,) = thread_changes([THREAD], dismissed(Ledger(posted=(row(),)), dismissal))
    note = change.body.split("\n")[2]
    assert "@team" not in note
    assert "<b>" not in note
    assert note.count("<!-- preflight:closed -->") == 1
    opened = thread_changes([replace(THREAD, body=change.body)], Ledger(posted=(row(),)))
    assert opened[0].body == BODY


def test_comments_are_known_by_their_markers_where_the_ledger_was_lost() -> None:
    ledger = with_threads(Ledger(), [THREAD, replace(THREAD, id="T2"), replace(THREAD, body="hello")])
    assert [(item.rule, item.where, item.status) for item in ledger.posted] == [("PF101", "comment", "open")]
    died = with_threads(Ledger(posted=(row(where="annotation"),)), [THREAD])
    assert died.commented == {"0123456789abcdef"}


def test_what_was_decided_while_a_review_ran_holds_in_what_it_publishes() -> None:
    found = reviewed(Ledger(), [row()], LATER, unseen=()).posted
    dismissal = Dismissal(
        fingerprint="0123456789abcdef",
        rule="PF101",
        path="train.py",
        line=7,
        reason="fine",
        who="dana",
        when="2026",
        head_sha=HEAD,
    )
    ledger = published(dismissed(Ledger(), dismissal), found, LATER)
    assert [item.status for item in ledger.posted] == ["dismissed"]
    assert ledger.dismissals == (dismissal,)
