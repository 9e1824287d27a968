"""The ledger of a pull request: what it remembers, and that only we can have written it."""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest

from bot.core.ledger import (
    Dismissal,
    Ignored,
    Ledger,
    Override,
    Posted,
    Status,
    Where,
    dismissed,
    ignoring,
    overridden,
    reviewed,
    unignoring,
)
from bot.core.seal import MAX_SEALED, fitting, has_room, seal, unseal, without_seal
from bot.render.decisions import closing_note

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
FIRST, SECOND, THIRD = "1" * 40, "2" * 40, "3" * 40


def _posted(
    fingerprint: str = "a" * 16, status: Status = "open", where: Where = "comment", head_sha: str = FIRST
) -> Posted:
    return Posted(
        fingerprint=fingerprint,
        rule="PF101",
        path="train.py",
        line=7,
        severity="error",
        where=where,
        status=status,
        head_sha=head_sha,
    )


def _dismissal(fingerprint: str = "a" * 16) -> Dismissal:
    return Dismissal(
        fingerprint=fingerprint,
        rule="PF101",
        path="train.py",
        line=7,
        reason="ten scalars -- fine",
        who="dana",
        when="2026-11-30T00:00:00Z",
        head_sha=SECOND,
    )


def _full() -> Ledger:
    ledger = dismissed(Ledger(posted=(_posted(), _posted("b" * 16, where="summary"))), _dismissal())
    ledger = ignoring(ledger, Ignored(rule="PF401", reason="", who="dana", when="2026", head_sha=FIRST))
    return overridden(ledger, Override(check="memory", sha=SECOND, reason="measured", who="omar", when="2026"))


def test_a_sealed_ledger_comes_back_and_ends_no_comment_early() -> None:
    sealed = seal(_full(), 5, 17, KEY)
    assert unseal(f"text\n\n{sealed}", 5, 17, [OTHER_KEY, KEY]).ledger == _full()
    assert sealed.count("--") == 2  # the comment's own ends
    assert without_seal(f"text\n\n{sealed}") == "text"
    assert unseal("text", 5, 17, [KEY]).problem == ""


@pytest.mark.parametrize(
    ("repo_id", "number", "key", "change"),
    [
        (5, 17, OTHER_KEY, ("", "")),
        (5, 18, KEY, ("", "")),
        (51, 7, KEY, ("", "")),
        (5, 17, KEY, ("ledger=1", "ledger=2")),
        (5, 17, KEY, ("=1:e", "=1:f")),
        (5, 17, KEY, (" -->", "!-->")),
    ],
)
def test_what_we_did_not_write_for_this_pull_request_is_not_read(
    repo_id: int, number: int, key: bytes, change: tuple[str, str]
) -> None:
    sealed = seal(_full(), 5, 17, KEY).replace(*change) if change[0] else seal(_full(), 5, 17, KEY)
    opened = unseal(sealed, repo_id, number, [key])
    assert opened.ledger == Ledger()
    assert opened.problem


def test_a_signed_version_of_the_future_is_said_and_not_guessed_at() -> None:
    from bot.core import seal as module

    sealed = seal(_full(), 5, 17, KEY)
    payload = sealed.split(":")[2]
    mac = module._mac("2", payload, 5, 17, KEY)
    assert "version 2" in unseal(f"<!-- preflight:ledger=2:{payload}:{mac} -->", 5, 17, [KEY]).problem


def test_fixed_findings_are_dropped_first_and_decisions_last() -> None:
    posted = [_posted(secrets.token_hex(8), "fixed") for _ in range(2_900)]
    posted += [_posted(secrets.token_hex(8), where="annotation") for _ in range(50)]
    posted += [_posted(secrets.token_hex(8)) for _ in range(50)]
    ledger = dismissed(replace(_full(), posted=tuple(posted)), _dismissal())
    sealed = seal(ledger, 5, 17, KEY)
    assert len(sealed) <= MAX_SEALED
    left = unseal(sealed, 5, 17, [KEY]).ledger
    assert left == fitting(ledger)
    assert left.posted[-100:] == ledger.posted[-100:]
    assert 100 < len(left.posted) < 3_000
    assert left.posted == ledger.posted[-len(left.posted) :]
    assert (left.dismissals, left.ignores, left.overrides) == (ledger.dismissals, ledger.ignores, ledger.overrides)


def test_too_many_decisions_are_noticed_before_they_are_written() -> None:
    ledger = Ledger()
    assert has_room(ledger)
    many = (replace(_dismissal(secrets.token_hex(8)), reason=secrets.token_hex(150)) for _ in range(100))
    assert not has_room(replace(ledger, dismissals=tuple(many)))


def test_a_finding_is_open_then_fixed_then_open_again_and_stays_a_comment() -> None:
    ledger = reviewed(Ledger(), [_posted()], FIRST, unseen=())
    ledger = reviewed(ledger, [], SECOND, unseen=())
    assert [(item.status, item.head_sha) for item in ledger.posted] == [("fixed", SECOND)]
    again = _posted(where="annotation", head_sha=THIRD)
    ledger = reviewed(ledger, [replace(again, line=9)], THIRD, unseen=())
    assert ledger.posted == (replace(again, where="comment", line=9),)
    assert ledger.commented == {"a" * 16}


def test_what_nobody_looked_at_is_not_called_fixed() -> None:
    ledger = Ledger(posted=(_posted(),))
    for blind in ({"unseen": ["train.py"]}, {"unseen": (), "unseen_rules": ["*"]}):
        assert reviewed(ledger, [], SECOND, **blind).posted == ledger.posted
    assert reviewed(ledger, [], SECOND, unseen=["other.py"], unseen_rules=["PF501"]).posted[0].status == "fixed"


def test_what_a_comment_in_the_code_excuses_is_not_called_fixed() -> None:
    ledger = Ledger(posted=(_posted(),))
    excused = reviewed(ledger, [], SECOND, unseen=(), excused={("PF101", "train.py")})
    assert [(item.status, item.head_sha) for item in excused.posted] == [("dismissed", SECOND)]
    assert closing_note(excused.posted[0], excused) == f"**Excused** by a comment in the code at `{SECOND[:12]}`."
    assert reviewed(excused, [_posted(head_sha=THIRD)], THIRD, unseen=()).posted[0].status == "open"
    assert reviewed(ledger, [], SECOND, unseen=(), excused={("PF102", "train.py")}).posted[0].status == "fixed"


def test_a_dismissal_holds_on_later_pushes_and_when_the_finding_comes_back() -> None:
    ledger = dismissed(Ledger(posted=(_posted(),)), _dismissal())
    assert ledger.posted[0].status == "dismissed"
    assert not ledger.matching("PF101")
    gone = reviewed(ledger, [], THIRD, unseen=())
    back = reviewed(gone, [_posted(head_sha=THIRD)], THIRD, unseen=())
    assert gone.posted[0].status == back.posted[0].status == "dismissed"
    assert back.dismissal("a" * 16) == _dismissal()


def test_code_path_and_line_find_open_findings() -> None:
    ledger = Ledger(posted=(_posted(), replace(_posted("b" * 16), line=9), _posted("c" * 16, "fixed")))
    assert len(ledger.matching("PF101")) == 2
    assert [item.line for item in ledger.matching("PF101", "train.py", 9)] == [9]
    assert not ledger.matching("PF101", "other.py")
    assert not ledger.matching("PF102")


def test_an_ignore_is_taken_back_and_an_override_holds_for_its_commit_alone() -> None:
    ledger = _full()
    assert ledger.ignored("PF401")
    assert unignoring(ledger, "PF401").ignored("PF401") is None
    assert ledger.override("memory", SECOND)
    assert ledger.override("memory", FIRST) is None
