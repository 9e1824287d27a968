"""Reviews whose job is gone: queued once more, then concluded. No check run hangs because a machine died.

A running job beats every `heartbeat` seconds, which moves its deadline `orphan_after` seconds ahead. Worst case for a
`kill -9` of worker and work-horse: 45 s until the deadline, 30 s until the next sweep, then the review itself.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace

import redis
from rq import Queue
from rq.exceptions import NoSuchJobError
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer

from bot.errors import PreflightError, Unavailable
from bot.queue.endings import FAILED, end, ending
from bot.queue.lease import Lease
from bot.queue.records import Record
from bot.queue.room import Room

_log = logging.getLogger("preflight.sweep")
_MAX_TRIES = 3
"""Times a review whose job died is queued again. One that dies each time kills its workers: it is concluded."""
_MAX_WAIT = 900.0
_PATIENCE = 2.0
"""Seconds for the turn to write: a job that publishes must not keep the sweeper from the other reviews."""
_FIRST_BEAT = 30.0
"""Seconds from a job's start to its first heartbeat: fork and imports, on a busy machine."""
_WAITING = frozenset({JobStatus.SCHEDULED, JobStatus.DEFERRED})


class Sweeper:
    """Sweeps on its own thread; of several supervisors only the one with the lease does."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._lease = Lease(room.client, room.keys.sweeper())
        self._stop = threading.Event()

    def run(self) -> None:
        """Until `stop`. A sweep that fails is logged and the next one comes."""
        while not self._stop.wait(self._room.settings.times.sweep):
            try:
                if self._lease.hold(3 * self._room.settings.times.sweep):
                    self.sweep(time.time())
            except (redis.RedisError, PreflightError) as error:
                _log.warning("sweep put off: %s", error)
            except Exception:  # noqa: BLE001  the watchdog must outlive every bug; the traceback is in the log
                _log.exception("sweep failed")

    def stop(self) -> None:
        """End `run` soon."""
        self._stop.set()

    def sweep(self, now: float) -> list[str]:
        """Look at every review that is due; returns their names."""
        due = self._room.records.due(now)
        for name in due:
            record = self._room.records.load(name)
            if record is None:
                self._room.records.drop(name)
                continue
            try:
                self._look_at(record, now)
            except PreflightError as error:
                _log.warning("review=%s not concluded yet: %s", name, error)
                self._postpone(record, now, error)
            except redis.RedisError:
                raise
            except Exception:  # noqa: BLE001  one bad record must not hide the others; the traceback is in the log
                _log.exception("review=%s not swept", name)
                self._postpone(record, now)
        return due

    def _look_at(self, record: Record, now: float) -> None:
        if record.ending:
            end(self._room, self._room.gateway_of(record), record)
        elif self._is_waiting(record, now):
            self._postpone(record, now)
        elif record.tries < _MAX_TRIES:
            again = replace(record, tries=record.tries + 1)
            self._room.client.delete(self._room.keys.heartbeat(record.name), self._room.keys.running(record.name))
            self._room.records.save(again, now + self._room.settings.times.orphan_after)
            self._room.meter.count("preflight_failures", kind="job lost, queued again")
            _log.warning("review=%s lost its job: queued again", record.name)
            if again.runs:
                self._room.enqueuer.review_pull(again)
            else:
                self._room.enqueuer.open_review(again)
        else:
            self._room.meter.count("preflight_failures", kind="job lost for good")
            _log.error("review=%s lost its job again: concluded", record.name)
            failed = replace(record, ending=ending(FAILED, "The worker died during this review, again and again."))
            self._room.records.save(failed, now)
            self._room.claims.release(record.delivery)
            end(self._room, self._room.gateway_of(failed, _PATIENCE), failed)

    def _postpone(self, record: Record, now: float, error: PreflightError | None = None) -> None:
        """Until the next sweep, or as long as GitHub asked us to wait."""
        asked = error.retry_after if isinstance(error, Unavailable) else None
        wait = min(_MAX_WAIT, max(self._room.settings.times.sweep, asked or 0.0))
        # Only the deadline: the record may have changed since this sweep read it.
        self._room.records.postpone(record.name, now + wait)

    def _is_waiting(self, record: Record, now: float) -> bool:
        """A job of this review is still in a queue, or was taken just now and has not beaten yet."""
        ids = (self._room.enqueuer.review_job_id(record), self._room.enqueuer.open_job_id(record))
        return any(self._waits(job_id, now) for job_id in ids)

    def _waits(self, job_id: str, now: float) -> bool:
        try:
            job = Job.fetch(job_id, connection=self._room.client, serializer=JSONSerializer)
        except NoSuchJobError:
            return False
        status = job.get_status()
        if status == JobStatus.STARTED and job.started_at is not None:
            return now - job.started_at.timestamp() < _FIRST_BEAT and not self._has_beaten(job)
        if status == JobStatus.QUEUED:
            # rq pops from several queues without a trace: a worker that is killed right then leaves a job that says so
            # and is in no queue.
            return self._room.client.lpos(f"{Queue.redis_queue_namespace_prefix}{job.origin}", job_id) is not None
        return status in _WAITING

    def _has_beaten(self, job: Job) -> bool:
        return bool(job.args) and bool(self._room.client.exists(self._room.keys.heartbeat(str(job.args[0]))))
