"""Whatever people write, a command has an answer, and the answer mentions nobody and opens nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.core import commands
from bot.core.commands import Act, Command, CommandContext, Mistake, command_names, explain_mistake, parse
from bot.core.commands.base import command_file
from bot.core.config import Config
from bot.render.answers import failed_text, refused_text
from bot.workshop.run_configs import run_configs
from tests.bot.core.test_memory_check import HEAD, tree
from tests.bot.core.test_memory_check import given as pull

_CONTEXT = CommandContext(
    head_sha=HEAD, given=pull("t4", Config()), run_configs=run_configs(tree("t4"), pull("t4", Config()))
)
_TRICKS = """@all #1 <img @x/y ![x](http://x.y) ` ``` | ../../etc/passwd --run-config /dev/stdin --gpu A100 PF101 memory
- -- -h $(id) run.slurm --micro-batch 999999999999999999999999999999 -1 nan 1e9 --help --format json ｐ é &lt;b&gt;"""
_WORDS = st.one_of(
    st.sampled_from([*_TRICKS.split(), "\u202e", "\x00", "a" * 400, "<img src=x>", "a b"]), st.text(max_size=12)
)
_TAGS = re.compile("p|ul|ol|li|table|thead|tbody|tr|th|td|strong|em|br|hr|h2|h3|details|summary|sub|b")
_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


def harmless(text: str, *, mentions: str = "") -> None:
    html = _MARKDOWN.render(text)
    outside = re.sub(r"<(code|pre)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert all(_TAGS.fullmatch(tag) for tag in re.findall(r"<([a-z][a-z0-9]*)", outside)), outside
    for found in re.findall(r"@(\w+)", outside):
        assert found == mentions, outside
    assert not any(char in text for char in "\u202e\x00")


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(command_names()), words=st.lists(_WORDS, max_size=5))
@example(name="estimate", words=["--run-config", "/etc/passwd"])
def test_every_word_has_an_answer(name: str, words: list[str]) -> None:
    found = commands.answer(Command(name=name, words=tuple(words)), _CONTEXT)
    if not isinstance(found, Act) and name != "explain":  # its pages are ours, with code and links
        harmless(found)


@settings(max_examples=200, deadline=None)
@given(body=st.lists(st.one_of(_WORDS, st.sampled_from(["/preflight", "\n", "> ", "```", "    ", "<!--", "'"]))))
def test_every_comment_is_a_command_a_mistake_or_none(body: list[str]) -> None:
    found = parse(" ".join(body).replace(" \n ", "\n"))
    if isinstance(found, Mistake):
        harmless(explain_mistake(found))


@pytest.mark.parametrize("login", ["ann", "ann[bot]", "a b @all", "<b>", "x" * 300])
def test_a_refusal_mentions_at_most_the_person_itself(login: str) -> None:
    harmless(refused_text(login, author_may=True), mentions="ann")


@settings(max_examples=60, deadline=None)
@given(why=st.lists(_WORDS, max_size=6))
def test_a_failure_shows_its_reason_as_text(why: list[str]) -> None:
    harmless(failed_text(" ".join(why)))


def test_no_word_of_estimate_reads_a_file() -> None:
    text = commands.answer(Command(name="estimate", words=("--run-config", __file__)), _CONTEXT)
    assert "test_no_word_of_estimate_reads_a_file" not in str(text)


def test_every_command_says_what_it_needs() -> None:
    for name in command_names():
        file = command_file(name)
        assert file.usage.startswith(f"/preflight {name}")
        assert file.summary.endswith(".")
        assert file.who in {"author_or_write", "write"}
