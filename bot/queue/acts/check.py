"""Queue a review that answers when it is done: two checks and a comment, no "please wait" before them."""

from __future__ import annotations

from bot.core.commands import Act
from bot.intents import ReviewPull
from bot.queue.desk import Desk


def carry_out(desk: Desk, act: Act) -> None:
    """The review says the answer (`bot.queue.replying`), also when it fails or a newer push ends it."""
    intent = ReviewPull.of(desk, desk.pull.number, desk.pull.head_sha, "command")
    desk.room.enqueuer.new_review(intent, desk.delivery, answer_key=desk.place.key, answer_thread=desk.place.thread)
