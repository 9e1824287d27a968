"""Take back an ignore or a dismissal: the rule, or the finding, is heard again.

`PF101` takes back everything that silences the rule here; `PF101@train.py:40` the dismissals in that place.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.core.commands.base import Act, Answer, CommandContext, Who
from bot.core.deciding import Target, of_thread, target
from bot.errors import InputError
from bot.render.answers import wrong_words

USAGE = "/preflight unignore CODE[@path[:line]]"
WHO: Who = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unignore(Act):
    """What is heard again."""

    target: Target


def answer(words: tuple[str, ...], context: CommandContext) -> Answer:
    """What is to be taken out of the ledger."""
    if not words and context.thread is not None:
        return Unignore(target=of_thread(context.thread))
    if len(words) != 1:
        return wrong_words("unignore", "name one code, such as PF401")
    try:
        return Unignore(target=target(words[0], context.thread))
    except InputError as error:
        return wrong_words("unignore", str(error))
