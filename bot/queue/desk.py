"""Where a command is dealt with: who asked what, on which head, and where the answer goes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bot.github.gateway import Gateway
from bot.github.pulls import PullInfo
from bot.intents import Repository
from bot.queue.room import Room
from bot.render import limits
from bot.store import DAY

ANSWER_MARKER = "<!-- preflight:answer={} -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPlace:
    """`key` names the question in the answer's marker; `thread` is the review thread's first comment, 0 for the
    conversation."""

    key: str
    thread: int = 0

    def say(self, gateway: Gateway, number: int, text: str, *, only_new: bool = False) -> None:
        """The one answer to this question: edited where it is there already, unless it shall be `only_new`."""
        marker = ANSWER_MARKER.format(self.key)
        body = limits.body(f"{marker}\n{text}")
        with gateway.publishing():
            if self.thread and gateway.threads.upsert(number, self.thread, marker, body, only_new=only_new):
                return
            if not only_new or not gateway.conversation.has(number, marker):
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

    @classmethod
    def of(
        cls,
        room: Room,
        gateway: Gateway,
        asked: Repository,
        pull: PullInfo,
        *,
        sender: str,
        delivery: str,
        place: AnswerPlace,
    ) -> Desk:
        """In the repository that `asked` names."""
        return cls(
            room=room,
            gateway=gateway,
            installation_id=asked.installation_id,
            repo_id=asked.repo_id,
            full_name=asked.full_name,
            pull=pull,
            sender=sender,
            delivery=delivery,
            place=place,
        )

    def note(self, sha: str, text: str) -> None:
        """What to answer once the head is `sha`: for a job that dies between the two and is run again."""
        key = self.room.keys.outcome(self.repo_id, self.place.key)
        self.room.client.set(key, json.dumps({"sha": sha, "text": text}), ex=DAY)

    def noted(self) -> str | None:
        """The answer of an earlier run of this job whose commit is the head now."""
        found: Any = self.room.client.get(self.room.keys.outcome(self.repo_id, self.place.key))
        document = json.loads(found) if found else {}
        return str(document["text"]) if document.get("sha") == self.pull.head_sha else None
