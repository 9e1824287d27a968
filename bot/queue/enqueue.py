"""Intents -> small JSON jobs: ids only, never a payload, never a token."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

from redis.client import Pipeline
from rq import Queue, Retry
from rq.exceptions import DuplicateJobError
from rq.serializers import JSONSerializer

from bot import intents
from bot.intents import CheckPush, ClosePull, DropTokens, Intent, MergeGroup, PressButton, Rerun, ReviewPull, RunCommand
from bot.queue import names
from bot.queue.claims import Claims
from bot.queue.records import Record, Records
from bot.store import DAY, Client, Keys

_FAST_TIMEOUT = 180
_FIRST_LOOK = 45.0
"""Seconds until the sweeper asks after a new review; one that still waits for a worker is left alone."""
_FUNCTIONS: dict[type[Any], str] = {
    ClosePull: names.CLOSE_PULL,
    RunCommand: names.RUN_COMMAND,
    Rerun: names.RERUN,
    PressButton: names.PRESS_BUTTON,
    MergeGroup: names.MERGE_GROUP,
    DropTokens: names.DROP_TOKENS,
}


class Enqueuer:
    """Puts jobs on the two queues."""

    def __init__(self, client: Client, keys: Keys, *, review_timeout: int = 600) -> None:
        self._client = client
        self._claims = Claims(client, keys)
        self._records = Records(client, keys)
        self._fast = Queue(names.FAST, connection=client, serializer=JSONSerializer)
        self._review = Queue(names.REVIEW, connection=client, serializer=JSONSerializer)
        self._review_timeout = review_timeout

    def deliver(self, intent: Intent, delivery: str) -> str | None:
        """Queue what a delivery asks for, once; the job id, None where nothing has to be done.

        Two round trips: a claim that passes by itself, then one transaction with record, job and lasting claim. So
        whatever is lost on the way, a delivery is either queued or can be redelivered. Raises `AlreadyAccepted`,
        `BeingAccepted`.
        """
        if isinstance(intent, ReviewPull | CheckPush):
            generation = self._claims.take(delivery, (intent.repo_id, _number(intent)))
        elif type(intent) in _FUNCTIONS:
            generation = self._claims.take(delivery)
        else:
            return None
        try:
            pipe = self._transaction()
            if isinstance(intent, ReviewPull | CheckPush):
                job_id = self._review_into(pipe, _record(intent, delivery, generation))
            else:
                job_id = self._event_into(pipe, intent, delivery)
            self._claims.confirm(delivery, pipe)
            pipe.execute()
        except BaseException:
            self._claims.give_back(delivery)
            raise
        return job_id

    def new_review(
        self,
        intent: ReviewPull | CheckPush,
        delivery: str,
        runs: dict[str, int] | None = None,
        *,
        answer_key: str = "",
        answer_thread: int = 0,
    ) -> str:
        """A new generation of this pull request's review: what runs for it is superseded.

        `runs` are check runs on its head that nobody concludes any more: it takes them over. `answer_key` and
        `answer_thread` say which question it answers, if any.
        """
        record = _record(intent, delivery, self._claims.next_generation(intent.repo_id, _number(intent)))
        record = replace(record, runs=runs or {}, answer_key=answer_key, answer_thread=answer_thread)
        pipe = self._transaction()
        job_id = self._review_into(pipe, record)
        pipe.execute()
        return job_id

    def _transaction(self) -> Pipeline:
        pipe = self._client.pipeline(transaction=True)
        pipe.multi()  # rq would call it, which redis-py refuses once a command waits
        return pipe

    def _review_into(self, pipe: Pipeline, record: Record) -> str:
        """Record and job together: from here on the sweeper knows of the review, whatever dies."""
        self._records.save_into(pipe, record, time.time() + _FIRST_LOOK)
        job_id = self.open_job_id(record)
        return self._put(self._fast, names.OPEN_REVIEW, job_id, _FAST_TIMEOUT, record.name, pipe=pipe)

    def _event_into(self, pipe: Pipeline, intent: Intent, delivery: str) -> str:
        function, arguments = _FUNCTIONS[type(intent)], (intents.to_json(intent), delivery)
        queue, timeout = self._place_of(function)
        return self._put(queue, function, f"ev-{delivery}", timeout, *arguments, pipe=pipe, retry=_again())

    def _place_of(self, function: str) -> tuple[Queue, int]:
        """What analyses waits with the reviews; early check runs and reactions never wait behind it."""
        if function in names.ANALYSING:
            return self._review, self._review_timeout
        return self._fast, _FAST_TIMEOUT

    def answer_command(self, document: dict[str, Any], delivery: str) -> str:
        """The second half of a command that looks at code."""
        queue, timeout = self._place_of(names.ANSWER_COMMAND)
        job_id = f"ev-{delivery}-answer"
        return self._put(queue, names.ANSWER_COMMAND, job_id, timeout, document, delivery, retry=_again())

    def open_review(self, record: Record, delay: float = 0.0) -> str:
        """The fast job that creates the check runs and hands over to `review_pull`."""
        job_id = self.open_job_id(record)
        return self._put(self._fast, names.OPEN_REVIEW, job_id, _FAST_TIMEOUT, record.name, delay=delay)

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
        """Put an event's job off: a service did not answer."""
        half = "-answer" if function == names.ANSWER_COMMAND else ""
        queue, timeout = self._place_of(function)
        arguments = (intent, delivery, attempt)
        job_id = f"ev-{delivery}{half}-{attempt}"
        return self._put(queue, function, job_id, timeout, *arguments, delay=delay, retry=_again())

    def _put(
        self,
        queue: Queue,
        function: str,
        job_id: str,
        timeout: int,
        *args: Any,
        delay: float = 0.0,
        pipe: Pipeline | None = None,
        retry: Retry | None = None,
    ) -> str:
        options: dict[str, Any] = {
            "job_id": job_id,
            "job_timeout": timeout,
            "result_ttl": 3_600,
            "failure_ttl": 7 * DAY,
            "retry": retry,
        }
        try:
            if pipe is not None:
                queue.enqueue(function, *args, pipeline=pipe, **options)
            elif delay > 0:
                queue.enqueue_in(timedelta(seconds=delay), function, *args, **options)
            else:
                queue.enqueue(function, *args, unique=True, **options)
        except DuplicateJobError:
            pass  # a crash between enqueueing and the note of it: the job is there, which is what we want
        return job_id


def _again() -> Retry:
    """No record watches over an event's job: rq runs one again whose worker was killed."""
    return Retry(max=3)


def _number(intent: ReviewPull | CheckPush) -> int:
    """The pull request; 0 for a commit of the default branch, which no later one supersedes."""
    return intent.number if isinstance(intent, ReviewPull) else 0


def _record(intent: ReviewPull | CheckPush, delivery: str, generation: int) -> Record:
    return Record(
        installation_id=intent.installation_id,
        repo_id=intent.repo_id,
        full_name=intent.full_name,
        number=_number(intent),
        head_sha=intent.head_sha,
        generation=generation,
        delivery=delivery,
        runs={},
    )
