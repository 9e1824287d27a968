"""Intents -> small JSON jobs: ids only, never a payload, never a token."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from rq import Queue
from rq.exceptions import DuplicateJobError
from rq.serializers import JSONSerializer

from bot import intents
from bot.intents import ClosePull, DropTokens, Intent, MergeGroup, Rerun, ReviewPull, RunCommand
from bot.queue import names
from bot.queue.claims import Claims
from bot.queue.records import Record, Records
from bot.store import DAY, Client, Keys

_FAST_TIMEOUT = 180
_COMMAND_TIMEOUT = 300


class Enqueuer:
    """Puts jobs on the two queues."""

    def __init__(self, client: Client, keys: Keys, *, review_timeout: int = 600, patience: float = 900.0) -> None:
        self._claims = Claims(client, keys)
        self._records = Records(client, keys)
        self._fast = Queue(names.FAST, connection=client, serializer=JSONSerializer)
        self._review = Queue(names.REVIEW, connection=client, serializer=JSONSerializer)
        self._review_timeout = review_timeout
        self._patience = patience

    def intent(self, intent: Intent, delivery: str) -> str | None:
        """Queue what `intent` asks for and return the job id; None where nothing has to be done."""
        if isinstance(intent, ReviewPull):
            return self.new_review(intent, delivery)
        function = {
            ClosePull: names.CLOSE_PULL,
            RunCommand: names.RUN_COMMAND,
            Rerun: names.RERUN,
            MergeGroup: names.MERGE_GROUP,
            DropTokens: names.DROP_TOKENS,
        }.get(type(intent))
        if function is None:
            return None
        timeout = _COMMAND_TIMEOUT if isinstance(intent, RunCommand) else _FAST_TIMEOUT
        return self._put(self._fast, function, f"ev-{delivery}", timeout, intents.to_json(intent), delivery)

    def new_review(self, intent: ReviewPull, delivery: str) -> str:
        """A new generation of this pull request's review: what runs for it is superseded."""
        record = Record(
            installation_id=intent.installation_id,
            repo_id=intent.repo_id,
            full_name=intent.full_name,
            number=intent.number,
            head_sha=intent.head_sha,
            generation=self._claims.next_generation(intent.repo_id, intent.number),
            delivery=delivery,
            runs={},
        )
        # The record goes first: from here on the sweeper knows of the review, whatever dies.
        self._records.save(record, time.time() + self._patience)
        return self.open_review(record)

    def open_review(self, record: Record, delay: float = 0.0) -> str:
        """The fast job that creates the check runs and hands over to `review_pull`."""
        return self._put(
            self._fast, names.OPEN_REVIEW, self.open_job_id(record), _FAST_TIMEOUT, record.name, delay=delay
        )

    def review_pull(self, record: Record, delay: float = 0.0) -> str:
        """The job that reviews. `tries` and `waits` are part of the id: a requeued review is another job."""
        return self._put(
            self._review, names.REVIEW_PULL, self.review_job_id(record), self._review_timeout, record.name, delay=delay
        )

    def open_job_id(self, record: Record) -> str:
        """The id of the record's `open_review` job."""
        return f"open-{record.name}-{record.tries}-{record.waits}"

    def review_job_id(self, record: Record) -> str:
        """The id of the record's `review_pull` job."""
        suffix = f"-{record.tries}-{record.waits}" if record.tries or record.waits else ""
        return f"pr-{record.name}{suffix}"

    def again(self, function: str, intent: dict[str, Any], delivery: str, attempt: int, delay: float) -> str:
        """Put a fast job off: a service did not answer."""
        job_id = f"ev-{delivery}-{attempt}"
        return self._put(self._fast, function, job_id, _COMMAND_TIMEOUT, intent, delivery, attempt, delay=delay)

    def _put(self, queue: Queue, function: str, job_id: str, timeout: int, *args: Any, delay: float = 0.0) -> str:
        options: dict[str, Any] = {
            "job_id": job_id,
            "job_timeout": timeout,
            "result_ttl": 3_600,
            "failure_ttl": 7 * DAY,
        }
        try:
            if delay > 0:
                queue.enqueue_in(timedelta(seconds=delay), function, *args, **options)
            else:
                queue.enqueue(function, *args, unique=True, **options)
        except DuplicateJobError:
            pass  # a crash between enqueueing and the note of it: the job is there, which is what we want
        return job_id
