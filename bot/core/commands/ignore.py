"""Hear nothing of a rule on this pull request, on later pushes either.

What it finds is neither commented nor counted in the check; the summary lists who ignored it. `/preflight unignore`
ends it. `PF501` cannot be ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.catalogue import find
from bot.core.commands.base import Act, Answer, CommandContext, Who
from bot.core.deciding import reason_of
from bot.errors import InputError
from bot.render.answers import wrong_words

USAGE = "/preflight ignore CODE [reason]"
WHO: Who = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore(Act):
    """One rule, and why."""

    rule: str
    reason: str


def answer(words: tuple[str, ...], context: CommandContext) -> Answer:
    """What is to be written into the ledger."""
    if not words:
        return wrong_words("ignore", "name the code of a rule, such as PF401")
    try:
        return Ignore(rule=find(words[0]).code, reason=reason_of(words[1:], is_needed=False))
    except InputError as error:
        return wrong_words("ignore", str(error))
