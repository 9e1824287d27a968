"""Comments of GitHub's full length that cost a parser what they can: read in well under a second each."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from bot.core.commands import parse
from bot.core.commands.grammar import command_line
from bot.core.seal import unseal, without_seal
from bot.core.thread import thread_finding
from bot.github.talk import _Ours

MOST = 65_536
CALL = "/preflight help\n"
"""Somewhere in each body: without it no parser is asked."""
BODIES = {
    "quotes": ">" * MOST,
    "a staircase of quotes": "\n".join("> " * depth + "a" for depth in range(250)),
    "a staircase of lists": "\n".join("  " * depth + "- a" for depth in range(250)),
    "lists in quotes": "\n".join("> - " * depth + "x" for depth in range(180)),
    "backticks": "`" * MOST,
    "growing backticks": " ".join("`" * length for length in range(1, 360)),
    "brackets": "[" * MOST,
    "images": "![a](" * (MOST // 5),
    "references": "[a]: b\n" * (MOST // 7),
    "emphasis": "**a*" * (MOST // 4),
    "fences": "~~~\n```\n" * (MOST // 8),
    "comments": "<!-- " * (MOST // 5),
    "tags": "<a " * (MOST // 3),
    "autolinks": "<http:" * (MOST // 6),
    "entities": "&a;" * (MOST // 3),
    "tables": "|a" * (MOST // 4) + "\n" + "|-" * (MOST // 4),
    "headings": "a\n=\n" * (MOST // 4),
    "line ends": "\r" * MOST,
    "commands": CALL * (MOST // len(CALL)),
    "words": "/preflight estimate " + "--a=b " * (MOST // 6),
    "quotation marks": '/preflight dismiss PF101 "' + '\\"' * (MOST // 2),
    "markers": "<!-- preflight:fingerprint=" * (MOST // 27),
    "a long marker": "<!-- preflight:fingerprint=" + "a" * MOST,
    "ledgers": ("<!-- preflight:ledger=1:" + "A" * 100 + ":" + "a" * 64) * (MOST // 190),
    "surrogates": "\ud800" * MOST,
    "nothing": "\0" * MOST,
}
READERS: dict[str, Callable[[str], object]] = {
    "command_line": command_line,
    "parse": parse,
    "thread_finding": lambda body: thread_finding(body, "train.py", 1),
    "unseal": lambda body: unseal(body, 1, 1, [b"key"]),
    "without_seal": without_seal,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_comment_is_read_in_no_time(body: str, reader: Callable[[str], object]) -> None:
    for text in (body, f"{body[: MOST - 2 * len(CALL)]}\n\n{CALL}", f"{CALL}{body}"[:MOST]):
        start = time.process_time()
        reader(text)
        assert time.process_time() - start < 1.0


def test_a_thread_of_long_answers_is_read_without_a_parser() -> None:
    """A hundred threads with thirty answers each come in one page."""
    ours = {"__typename": "Bot", "login": "preflight"}
    first = {"id": "C", "body": "<!-- preflight:fingerprint=0123456789abcdef -->\n\n**PF101**", "author": ours}
    answer = {"body": BODIES["commands"], "author": {"__typename": "User", "login": "dana"}}
    node = {"id": "T", "path": "t.py", "isResolved": False, "comments": {"totalCount": 30, "nodes": [first, answer]}}
    start = time.process_time()
    threads = list(_Ours({"login": "preflight[bot]"}).threads([node] * 1_000))
    assert time.process_time() - start < 2.0
    assert {item.has_reply for item in threads} == {True}
