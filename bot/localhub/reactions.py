"""Reacting to a comment: one reaction of a kind per account."""

from __future__ import annotations

from typing import Any

from bot.localhub.clock import now
from bot.localhub.errors import invalid
from bot.localhub.model import Account, Comment, Reaction
from bot.localhub.payloads.pulls import REACTIONS
from bot.localhub.state import Hub


def react(hub: Hub, comment: Comment, author: Account, content: Any) -> tuple[Reaction, bool]:
    """The reaction, and whether it is new."""
    if content not in REACTIONS:
        raise invalid("Reaction", "content", f"{content!r} is not a reaction", "invalid")
    for found in comment.reactions:
        if found.author is author and found.content == content:
            return found, False
    reaction = Reaction(id=hub.new_id(), author=author, content=content, created_at=now())
    comment.reactions.append(reaction)
    return reaction, True
