"""Which lines are commands, and what they answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.catalogue import all_rules
from bot.core import commands
from bot.core.commands import Command, CommandContext, Mistake, explain_mistake, parse, who_may
from bot.core.commands.base import command_file
from bot.core.thread import thread_finding

CONTEXT = CommandContext(head_sha="a" * 40)


def answer(command: Command, context: CommandContext) -> str:
    said = commands.answer(command, context)
    assert isinstance(said, str)
    return said


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("/preflight estimate A100", Command(name="estimate", words=("A100",))),
        ("hi\n/preflight  ESTIMATE 'a b'\nbye", Command(name="estimate", words=("a b",))),
        ("text\r\n\r\n/preflight help\r\n", Command(name="help")),
        ("/preflight", Command(name="help")),
        (
            "/preflight estimate --micro_batch_size 4 _x_",
            Command(name="estimate", words=("--micro_batch_size", "4", "_x_")),
        ),
        ("see /preflight help", None),
        ("/preflights help", None),
        ("```\n/preflight help\n```", None),
        ("    /preflight help", None),
        ("> /preflight help", None),
        ("> quote\n/preflight help", None),
        ("- x\n  /preflight help", None),
        ("<!--\n/preflight help\n-->", None),
        ("a <!--\n/preflight help\n-->", None),
        ("`a\n/preflight help\n`", None),
        ("```\n/preflight help\n```\n/preflight estimate H100", Command(name="estimate", words=("H100",))),
        ("\ue0000\ue001", None),
    ],
)
def test_a_command_stands_at_the_start_of_a_line_of_text(body: str, expected: Command | None) -> None:
    assert expected == parse(body)


@pytest.mark.parametrize(
    ("body", "nearest"),
    [
        ("/preflight estmate", "estimate"),
        ("/preflight pf101", "explain PF101"),
        ("/preflight zzz", None),
        ("/preflight help 'x", None),
    ],
)
def test_a_typo_is_answered(body: str, nearest: str | None) -> None:
    mistake = parse(body)
    assert isinstance(mistake, Mistake)
    assert mistake.nearest == nearest
    assert "/preflight help" in explain_mistake(mistake)


def test_mistakes_quote_nobody_into_a_mention() -> None:
    mistake = parse("/preflight `@everyone <img>")
    assert isinstance(mistake, Mistake)
    assert "@everyone <img>`" in explain_mistake(mistake)  # inside a code span
    assert "command \\'" not in explain_mistake(mistake)


def test_the_page_names_every_command_as_it_is() -> None:
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = [line for line in page.split("\n") if line.startswith("| `/preflight ")]
    assert len(rows) == len(commands.command_names())
    for name in commands.command_names():
        file = command_file(name)
        usage = file.usage.replace("|", "\\|")
        [row] = [line for line in rows if line.startswith(f"| `{usage}` |")]
        assert ("the author, or write access" in row) == (file.who == "author_or_write")


def test_help_lists_every_command() -> None:
    text = answer(Command(name="help"), CONTEXT)
    assert "/preflight estimate" in text
    assert who_may(Command(name="estimate")) == "author_or_write"


def test_an_estimate_quotes_the_pinned_head_and_both_sizes() -> None:
    words = ("A100", "--model", "meta-llama/Llama-2-7b-hf", "--micro-batch", "1", "--seq-len", "2048")
    text = answer(Command(name="estimate", words=words), CONTEXT)
    assert "a" * 12 in text
    assert "40" in text
    assert "80" in text


def test_an_unknown_gpu_is_an_answer() -> None:
    text = answer(Command(name="estimate", words=("A1000000",)), CONTEXT)
    assert "/preflight help estimate" in text


def test_explain_gives_the_page_of_a_rule_by_code_name_or_alias() -> None:
    pages = {answer(Command(name="explain", words=(word,)), CONTEXT) for word in ("PF101", "graph-retention", "tg001")}
    assert len(pages) == 1
    (page,) = pages
    assert "Why it matters" in page
    assert page.startswith("<details open><summary><b>PF101</b>")


def test_explain_in_a_thread_is_about_its_finding() -> None:
    marker = "<!-- preflight:fingerprint=abc -->"
    thread = thread_finding(f"{marker}\n\n**PF201 missing-zero-grad** · error", "train.py", 3)
    assert thread is not None
    context = CommandContext(head_sha="a" * 40, thread=thread)
    assert answer(Command(name="explain"), context) == answer(Command(name="explain", words=("PF201",)), CONTEXT)
    assert thread_finding("nice", "train.py", 3) is None
    assert thread_finding(f"> {marker}\n**PF201 x**", "train.py", 3) is None


def test_explain_answers_what_it_does_not_know() -> None:
    assert "graph-retention" in answer(Command(name="explain", words=("graph-retension",)), CONTEXT)
    assert "name a rule" in answer(Command(name="explain"), CONTEXT)


def test_every_rule_can_be_explained() -> None:
    for rule in all_rules():
        assert rule.name in answer(Command(name="explain", words=(rule.code,)), CONTEXT)
