"""Call one finding no defect, with a reason that is kept and shown.

It is not said again, on later pushes either, and no longer counts in the check. `PF101@train.py:40` names one of
several; in the thread of a finding the reason is enough. `/preflight unignore` takes it back; `PF501` stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.core.commands.base import Act, Answer, CommandContext, Who
from bot.core.deciding import Target, names_rule, of_thread, reason_of, target
from bot.errors import InputError
from bot.render.answers import wrong_words

USAGE = "/preflight dismiss CODE[@path[:line]] reason"
WHO: Who = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismiss(Act):
    """One finding, and why it is none."""

    target: Target
    reason: str


def answer(words: tuple[str, ...], context: CommandContext) -> Answer:
    """What is to be written into the ledger."""
    if not words:
        return wrong_words("dismiss", "name the code of the finding, and say why it is no defect")
    try:
        if context.thread is not None and not names_rule(words[0]):
            return Dismiss(target=of_thread(context.thread), reason=reason_of(words))
        return Dismiss(target=target(words[0], context.thread), reason=reason_of(words[1:]))
    except InputError as error:
        return wrong_words("dismiss", str(error))
