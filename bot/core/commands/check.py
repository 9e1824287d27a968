"""Review the present head once more and answer with what was found.

Also on a draft, which is not reviewed otherwise. Both checks run anew; comments that are there are not repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.core.commands.base import Act, Answer, CommandContext, Who
from bot.render.answers import wrong_words

USAGE = "/preflight check"
WHO: Who = "author_or_write"


@dataclass(frozen=True, slots=True)
class Recheck(Act):
    """A new review of the head."""


def answer(words: tuple[str, ...], context: CommandContext) -> Answer:
    """A review of the whole pull request; there is nothing to choose."""
    if words:
        return wrong_words("check", "it takes no words: the whole pull request is reviewed")
    return Recheck()
