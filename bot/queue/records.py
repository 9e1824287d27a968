"""The record of a review that is not concluded yet: what the sweeper needs when everything else died.

Written before the job is queued, dropped after its check runs are concluded. A review is named
``{repo_id}-{number}-{sha}-{generation}``, which is also the end of its job ids.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from redis.client import Pipeline

from bot.core.plan import CHECK_NAMES, MEMORY_CHECK, CheckName
from bot.store import HEARTBEAT_TTL, RECORD_TTL, Client, Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`runs` maps check names to check run ids already created; `tries` counts jobs queued for it."""

    installation_id: int
    repo_id: int
    full_name: str
    number: int
    head_sha: str
    generation: int
    delivery: str
    runs: dict[str, int]
    tries: int = 0
    waits: int = 0
    """Times it was put off because a service did not answer."""
    answer_key: str = ""
    """The question in a comment or button that this review answers (`bot.queue.desk.AnswerPlace`)."""
    answer_thread: int = 0
    ending: str = ""
    """How it ended (`bot.queue.endings`); kept until its check runs are concluded."""

    @property
    def checks(self) -> tuple[CheckName, ...]:
        """The check runs that it concludes. A commit of the default branch (number 0) has no review."""
        return CHECK_NAMES if self.number else (MEMORY_CHECK,)

    @property
    def name(self) -> str:
        return f"{self.repo_id}-{self.number}-{self.head_sha}-{self.generation}"


class Records:
    """The records in Redis. The deadline is the time at which the sweeper looks at a review."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def save(self, record: Record, deadline: float) -> None:
        pipe = self._client.pipeline()
        self.save_into(pipe, record, deadline)
        pipe.execute()

    def save_into(self, pipe: Pipeline, record: Record, deadline: float) -> None:
        """As part of somebody's transaction."""
        pipe.set(self._keys.record(record.name), json.dumps(asdict(record)), ex=RECORD_TTL)
        pipe.zadd(self._keys.open_reviews(), {record.name: deadline})

    def postpone(self, name: str, deadline: float) -> None:
        """Another deadline for a review that is still open."""
        self._client.zadd(self._keys.open_reviews(), {name: deadline}, xx=True)

    def load(self, name: str) -> Record | None:
        """None once the review is concluded (or Redis was flushed)."""
        text = self._client.get(self._keys.record(name))
        return Record(**json.loads(text)) if text else None

    def drop(self, name: str) -> None:
        pipe = self._client.pipeline()
        pipe.delete(self._keys.record(name), self._keys.heartbeat(name))
        pipe.zrem(self._keys.open_reviews(), name)
        pipe.execute()

    def add_run(self, name: str, check: str, run_id: int) -> None:
        """Remember a check run, keeping the deadline."""
        if record := self.load(name):
            updated = replace(record, runs={**record.runs, check: run_id})
            self._client.set(self._keys.record(name), json.dumps(asdict(updated)), ex=RECORD_TTL)

    def beat(self, name: str, orphan_after: float) -> None:
        """The job is alive: the sweeper need not look before `orphan_after` seconds from now."""
        now = time.time()
        pipe = self._client.pipeline()
        pipe.set(self._keys.heartbeat(name), repr(now), ex=HEARTBEAT_TTL)
        pipe.zadd(self._keys.open_reviews(), {name: now + orphan_after}, xx=True)
        pipe.execute()

    def due(self, now: float) -> list[str]:
        """Reviews whose deadline has passed."""
        return _texts(self._client.zrangebyscore(self._keys.open_reviews(), "-inf", now))

    def of_pull(self, repo_id: int, number: int) -> list[str]:
        """Open reviews of one pull request."""
        names = _texts(self._client.zrange(self._keys.open_reviews(), 0, -1))
        return [name for name in names if name.startswith(f"{repo_id}-{number}-")]


def _texts(members: Any) -> list[str]:
    return [str(member, "utf-8") for member in members]
