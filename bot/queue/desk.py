"""Where a command is dealt with: who asked what, on which head, and where the answer goes."""

from __future__ import annotations

from dataclasses import dataclass

from bot.github.gateway import Gateway, PullInfo
from bot.queue.room import Room
from bot.render import limits

ANSWER_MARKER = "<!-- preflight:answer={} -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPlace:
    """`key` names the question in the answer's marker; `thread` is the review thread's first comment, 0 for the
    conversation."""

    key: str
    thread: int = 0

    def say(self, gateway: Gateway, number: int, text: str) -> None:
        """The one answer to this question: edited where it is there already."""
        marker = ANSWER_MARKER.format(self.key)
        body = limits.body(f"{marker}\n{text}")
        with gateway.publishing():
            if self.thread:
                gateway.threads.upsert(number, self.thread, marker, body)
            else:
                gateway.conversation.upsert(number, marker, body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """`pull` is the pull request when the command was read: its head stays pinned. `sender` may do what was asked."""

    room: Room
    gateway: Gateway
    installation_id: int
    repo_id: int
    full_name: str
    pull: PullInfo
    sender: str
    delivery: str
    place: AnswerPlace
