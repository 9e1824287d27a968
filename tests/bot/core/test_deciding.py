"""What commands do to the ledger, and what they refuse."""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest

from bot.core.commands import CommandContext, ThreadFinding, answer, parse
from bot.core.commands.dismiss import Dismiss
from bot.core.commands.grammar import Command
from bot.core.commands.override import LetPass
from bot.core.commands.unignore import Unignore
from bot.core.deciding import Maker, Target, dismiss, ignore, override, target, unignore
from bot.core.ledger import Ignored, Ledger, Posted
from bot.errors import InputError

HEAD = "a" * 40
DANA = Maker(who="dana", when="2026-11-30T00:00:00Z", head_sha=HEAD)


def posted(fingerprint: str, line: int, path: str = "train.py") -> Posted:
    return Posted(
        fingerprint=fingerprint,
        rule="PF101",
        path=path,
        line=line,
        severity="error",
        where="comment",
        status="open",
        head_sha=HEAD,
    )


TWO = Ledger(posted=(posted("1" * 16, 4), posted("2" * 16, 9)))


def act(line: str, thread: ThreadFinding | None = None) -> object:
    command = parse(line)
    assert isinstance(command, Command)
    return answer(command, CommandContext(head_sha=HEAD, sender="dana", thread=thread))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("PF101", Target(rule="PF101")),
        ("graph-retention@src/a b.py", Target(rule="PF101", path="src/a b.py")),
        ("tg001@./train.py:9", Target(rule="PF101", path="train.py", line=9)),
        ("PF101@a:b.py", Target(rule="PF101", path="a:b.py")),
    ],
)
def test_code_path_and_line_are_read(word: str, expected: Target) -> None:
    assert target(word) == expected


def test_the_thread_of_a_finding_names_it_where_the_code_is_its_own() -> None:
    thread = ThreadFinding(rule="PF101", fingerprint="2" * 16, path="train.py", line=9)
    found = act("/preflight dismiss PF101 ten values only", thread)
    assert isinstance(found, Dismiss)
    decided = dismiss(TWO, found.target, found.reason, DANA)
    assert decided.ledger is not None
    assert [(item.line, item.reason) for item in decided.ledger.dismissals] == [(9, "ten values only")]
    assert target("PF201", thread).fingerprint is None
    assert act("/preflight dismiss ten values only", thread) == found
    assert act("/preflight unignore", thread) == Unignore(target=found.target)


def test_which_of_several_is_asked_back_with_commands_to_copy() -> None:
    decided = dismiss(TWO, target("PF101"), "why", DANA)
    assert decided.ledger is None
    assert "`/preflight dismiss PF101@train.py:9 …`" in decided.answer
    assert "`/preflight ignore PF101 …`" in decided.answer


def test_a_dismissal_twice_keeps_the_newer_reason() -> None:
    once = dismiss(TWO, target("PF101@train.py:9"), "first", DANA).ledger
    assert once is not None
    twice = dismiss(once, target("PF101@train.py:9"), "second", DANA).ledger
    assert twice is not None
    assert [item.reason for item in twice.dismissals] == ["second"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("/preflight dismiss", "name the code"),
        ("/preflight dismiss PF101", "say why"),
        ("/preflight dismiss PF999 why", "no rule"),
        ("/preflight dismiss PF101@ why", "names no file"),
        (f"/preflight dismiss PF101 {'x' * 301}", "300 are kept"),
        ("/preflight ignore", "name the code"),
        ("/preflight unignore PF101 PF102", "name one code"),
        ("/preflight override code " + HEAD + " why", "name the check `memory`"),
        ("/preflight override memory main why", "all 40 digits"),
        ("/preflight override memory " + HEAD, "say why"),
    ],
)
def test_words_that_are_wrong_are_said(line: str, problem: str) -> None:
    found = act(line)
    assert isinstance(found, str)
    assert problem in found.replace("\\", "")


def test_what_cannot_be_decided_is_refused() -> None:
    memory = replace(posted("3" * 16, 1), rule="PF501")
    with pytest.raises(InputError, match="override memory"):
        dismiss(Ledger(posted=(memory,)), target("PF501"), "why", DANA)
    with pytest.raises(InputError, match="override memory"):
        ignore(Ledger(), "PF501", "", DANA)
    with pytest.raises(InputError, match=r"no open finding of PF102 in x\.py \(open here: PF101"):
        dismiss(TWO, target("PF102@x.py"), "why", DANA)
    with pytest.raises(InputError, match="not the head"):
        override(Ledger(), "b" * 40, "why", DANA)


def test_what_nothing_silences_is_said() -> None:
    decided = unignore(TWO, target("PF101@train.py"))
    assert (decided.ledger, decided.answer) == (None, "`PF101`: nothing silences it in `train.py`.")


def test_a_ledger_that_is_full_of_decisions_takes_no_more() -> None:
    rows = [
        Ignored(rule=f"PF{number}", reason=secrets.token_hex(150), who="dana", when="2026", head_sha=HEAD)
        for number in range(100)
    ]
    assert ignore(Ledger(ignores=tuple(rows[:20])), "PF101", "", DANA).ledger is not None
    with pytest.raises(InputError, match="too much is decided"):
        ignore(Ledger(ignores=tuple(rows)), "PF101", "", DANA)


def test_an_ignore_and_dismissals_are_taken_back_by_code_or_place() -> None:
    ledger = dismiss(TWO, target("PF101@train.py:9"), "why", DANA).ledger
    assert ledger is not None
    ledger = ignore(ledger, "PF101", "", DANA).ledger
    assert ledger is not None
    placed = unignore(ledger, target("PF101@train.py:9")).ledger
    assert placed is not None
    assert (len(placed.dismissals), len(placed.ignores)) == (0, 1)
    both = unignore(ledger, target("PF101")).ledger
    assert both is not None
    assert (len(both.dismissals), len(both.ignores)) == (0, 0)


def test_an_override_names_its_commit() -> None:
    found = act(f"/preflight override memory {HEAD.upper()} measured on the node")
    assert found == LetPass(sha=HEAD, reason="measured on the node")
    decided = override(Ledger(), HEAD, "measured", DANA)
    assert decided.ledger is not None
    assert decided.ledger.override("memory", HEAD) is not None
