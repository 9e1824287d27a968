"""What went wrong in a job: what may be over soon is put off, and what is not is said in words."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import redis
from rq.timeouts import JobTimeoutException

from bot.errors import InputError, Unavailable
from bot.github.errors import Forbidden, Invalid, NotFound, Refused
from bot.queue.records import Record
from bot.queue.room import Room
from bot.workshop.parent import AnalysisDied

T = TypeVar("T")
_log = logging.getLogger("preflight.jobs")
FINAL = (NotFound, Invalid, Forbidden)
"""The repository, the commit or our permission is gone: trying again changes nothing, and nobody waits for us."""
_PAUSES = (0.5, 2.0)
MAX_WAITS = 24
"""Times a job is put off. Without a wish of the service's that is 21 minutes."""
LAG_WAITS = 3
"""Times a review waits for the head of its webhook: an event can be ahead of GitHub's API."""
LAG_SECONDS = 2.0
_MAX_DELAY = 900.0
_MAX_BACKOFF = 60.0
"""Without a wish of the service's: a review goes on within a minute of the end of an outage."""
_REDIS_SECONDS = 5.0


def persistently(ask: Callable[[], T]) -> T:
    """A refusal is believed when it is repeated: a run that is left open for one wrong 404 hangs for ever, and a
    question whose answer met one is never answered."""
    for pause in _PAUSES:
        try:
            return ask()
        except FINAL:
            time.sleep(pause)
    return ask()


def delay(error: Unavailable, times: int) -> float:
    """Seconds until a job that was put off so many `times` runs again."""
    if error.retry_after is not None:
        return min(_MAX_DELAY, error.retry_after)
    return min(_MAX_BACKOFF, 5.0 * float(1 << min(times, 10)))


def passing(error: Exception, waits: int) -> Unavailable | None:
    """What may be over soon: the job, which was put off so often, is put off."""
    if isinstance(error, Unavailable):
        return error
    if isinstance(error, redis.RedisError):
        # Where it still does not answer, putting off raises again, and the sweeper finds the review without a job.
        return Unavailable(f"Redis: {type(error).__name__}", _REDIS_SECONDS)
    if isinstance(error, NotFound) and waits < LAG_WAITS:
        # A fresh commit or pull request may not be everywhere at GitHub yet.
        return Unavailable(str(error), LAG_SECONDS)
    return None


def reason(room: Room, record: Record, error: Exception) -> str:
    """What the check says of an error that trying again does not change."""
    if isinstance(error, (InputError, AnalysisDied)):
        return str(error)
    if isinstance(error, Refused):  # a permission that was taken away, a repository that is gone
        _log.warning("review=%s refused: %s", record.name, error)
        room.meter.count("preflight_failures", kind="refused by GitHub")
        return str(error)
    if isinstance(error, JobTimeoutException):
        return f"The review took longer than {room.settings.times.review_timeout} s."
    _log.error("review=%s failed", record.name, exc_info=error)
    room.meter.count("preflight_failures", kind="bug")
    room.claims.release(record.delivery)
    return f"A bug in Preflight ({type(error).__name__}); the log of the worker has the details."
