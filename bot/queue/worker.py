"""The rq worker that runs our jobs and nothing else, and why its settings are what they are.

- JSON serializer: with rq's default, pickle, whoever can write to Redis runs code in the worker.
- Only the functions of `bot.queue.names.JOBS`: rq would import and call any dotted name a job holds, `os.system` too,
  and its callbacks and web hooks just the same.
- ``worker_ttl`` 45: maintenance runs only when the blocking pop returns, after ttl - 15 s. rq's default is 405 s.
- ``maintenance_interval`` 30, ``job_monitoring_interval`` 5: a killed worker's job is noticed in about a minute. The
  check runs do not wait for that: `bot.queue.sweep` watches heartbeats of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rq import Queue, Worker
from rq.job import Job
from rq.serializers import JSONSerializer

from bot.queue import names
from bot.settings import WorkerTimes
from bot.store import Client, Keys

_CLEANING_SECONDS = 60


class ForbiddenJob(Exception):
    """Somebody queued a function that is not one of ours."""


class OnlyOurJob(Job):
    """A job whose function must be on the list; it has no callbacks and calls no web hooks."""

    @property
    def func(self) -> Any:
        name = self.func_name
        if name not in names.JOBS:
            raise ForbiddenJob(f"{str(name)[:100]!r} is not a job of Preflight")
        return super().func

    @property
    def success_callback(self) -> Any:
        return None

    @property
    def failure_callback(self) -> Any:
        return None

    @property
    def stopped_callback(self) -> Callable[..., Any] | None:
        return None

    def restore(self, raw_data: Any) -> Any:
        answer = super().restore(raw_data)
        self.webhooks = []
        return answer


class OurQueue(Queue):
    """Whoever cleans the registries holds a lock; rq keeps the one of a cleaner that was killed for 15 minutes, and so
    long no job of a killed worker would be run again."""

    def acquire_maintenance_lock(self) -> bool:
        return bool(self.connection.set(self.registry_cleaning_key, 1, nx=True, ex=_CLEANING_SECONDS))


class PreflightWorker(Worker):
    """Takes the fast queue first."""

    def __init__(self, client: Client, keys: Keys, times: WorkerTimes) -> None:
        queues = [
            OurQueue(name, connection=client, serializer=JSONSerializer, job_class=OnlyOurJob)
            for name in (names.FAST, names.REVIEW)
        ]
        self._preflight_keys = keys
        super().__init__(
            queues,
            connection=client,
            serializer=JSONSerializer,
            job_class=OnlyOurJob,
            worker_ttl=times.worker_ttl,
            maintenance_interval=times.maintenance,
            job_monitoring_interval=times.job_monitoring,
            work_horse_killed_handler=self._horse_died,
        )

    def _horse_died(self, job: Job, *_: Any) -> None:
        """A review whose work-horse was killed (out of memory) is the sweeper's at once."""
        if job.func_name in {names.OPEN_REVIEW, names.REVIEW_PULL} and job.args:
            key = self._preflight_keys.open_reviews()
            self.connection.zadd(key, {str(job.args[0]): time.time()}, xx=True)
            keys = self._preflight_keys
            self.connection.delete(keys.heartbeat(str(job.args[0])), keys.running(str(job.args[0])))
