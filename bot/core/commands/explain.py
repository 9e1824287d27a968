"""Explain a rule: what the bug costs, an example, what to write instead, when it stays quiet.

A rule is named by its code, its name, or its code in torch-preflight: `PF101`, `graph-retention`, `TG001`. In the
thread of a finding the rule need not be named.
"""

from __future__ import annotations

from bot.catalogue import find
from bot.core.commands.base import CommandContext, Who
from bot.errors import InputError
from bot.render.answers import page_text, wrong_words

USAGE = "/preflight explain [RULE…]"
WHO: Who = "author_or_write"
MAX_RULES = 3


def answer(words: tuple[str, ...], context: CommandContext) -> str:
    """The pages of the rules that are named, each folded under its summary."""
    if not words and context.thread is not None:
        words = (context.thread.rule,)
    if not words:
        return wrong_words("explain", "name a rule, such as PF101")
    try:
        return page_text([find(word) for word in words[:MAX_RULES]])
    except InputError as error:
        return wrong_words("explain", str(error))
