"""A question of the web process to a worker, which has the app's key and may analyse code, and its answer.

The answer goes through a list of its own that expires. Nobody is told anything but what a job function answers.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from typing import Any

from rq import Queue
from rq.exceptions import InvalidJobOperation, NoSuchJobError
from rq.serializers import JSONSerializer

from bot.errors import Unavailable
from bot.queue import names
from bot.store import REPLY_TTL, Client, Keys, connect


class Asker:
    """The web side. `client` must not time out before `seconds`."""

    def __init__(self, url: str, keys: Keys, seconds: float) -> None:
        self._client = connect(url, timeout=seconds + 2)
        self._keys = keys
        self._seconds = seconds
        self._queue = Queue(names.FAST, connection=self._client, serializer=JSONSerializer)

    def ask(self, function: str, question: dict[str, Any]) -> dict[str, Any]:
        """The answer. Raises `Unavailable` where no worker gave one in time; Redis' own errors pass."""
        reply = secrets.token_hex(16)
        job = self._queue.enqueue(
            function,
            question,
            reply,
            job_id=f"ask-{reply}",
            job_timeout=int(self._seconds) + 5,
            ttl=int(self._seconds) + 1,  # an answer that nobody waits for any more is not worth a worker's time
            result_ttl=0,
            failure_ttl=3_600,
        )
        found: Any = self._client.blpop([self._keys.reply(reply)], timeout=self._seconds)
        if found is None:
            with suppress(NoSuchJobError, InvalidJobOperation):
                job.cancel()
            raise Unavailable(f"no worker answered within {self._seconds:.0f} s", self._seconds)
        document = json.loads(found[1])
        return document if isinstance(document, dict) else {}


def answer(client: Client, keys: Keys, reply: str, document: dict[str, Any]) -> None:
    """The worker's side."""
    key = keys.reply(reply)
    pipe = client.pipeline()
    pipe.rpush(key, json.dumps(document))
    pipe.expire(key, REPLY_TTL)
    pipe.execute()
