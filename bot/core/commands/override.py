"""Let one commit pass `preflight/memory` although it was not found to fit, with a reason that stands in the check.

For somebody with write access who wrote neither the pull request nor one of its commits. The commit is named with all
40 digits and must be the head: a push after you looked needs a new look.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.core.commands.base import Act, Answer, CommandContext, Who
from bot.core.deciding import check_sha, reason_of
from bot.errors import InputError
from bot.render.answers import wrong_words

USAGE = "/preflight override memory <40-digit sha> reason"
WHO: Who = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetPass(Act):
    """One commit, and why it may pass."""

    sha: str
    reason: str


def answer(words: tuple[str, ...], context: CommandContext) -> Answer:
    """What is to be written into the ledger."""
    if len(words) < 2 or words[0].casefold() not in {"memory", "preflight/memory"}:
        return wrong_words("override", "name the check `memory`, the commit with all 40 digits, and say why")
    try:
        sha = words[1].lower()
        check_sha(sha)
        return LetPass(sha=sha, reason=reason_of(words[2:]))
    except InputError as error:
        return wrong_words("override", str(error))
