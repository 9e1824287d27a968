"""Queue a review that answers when it is done: two checks and a comment, no "please wait" before them."""

from __future__ import annotations

from bot.core.commands import Act
from bot.intents import ReviewPull
from bot.queue.desk import Desk


def carry_out(desk: Desk, act: Act) -> None:
    """The review says the answer (`bot.queue.replying`), also when it fails or a newer push ends it."""
    intent = ReviewPull(
        installation_id=desk.installation_id,
        repo_id=desk.repo_id,
        full_name=desk.full_name,
        number=desk.pull.number,
        head_sha=desk.pull.head_sha,
        reason="command",
    )
    desk.room.enqueuer.new_review(intent, desk.delivery, answer_key=desk.place.key, answer_thread=desk.place.thread)
