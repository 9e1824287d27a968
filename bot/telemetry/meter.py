"""Counting: every process adds to the same hash in Redis, so that a scrape of any receiver tells of all of them.

Prometheus's own files per process would lose the counts of each work-horse, which lives for one job.
"""

from __future__ import annotations

import json
import logging
import threading
from bisect import bisect_left
from collections import Counter
from contextlib import suppress

import redis

from bot.store import Client, Keys

_log = logging.getLogger("preflight.metrics")
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_FLUSH_SECONDS = 2.0
_MAX_WAITING = 5_000
"""Different series that wait while Redis does not answer; more are not counted."""


def series(name: str, labels: dict[str, str]) -> str:
    """The field of a series."""
    return json.dumps([name, *sorted(labels.items())], ensure_ascii=False, separators=(",", ":"))


class Meter:
    """Adds up in this process and passes it on with `flush`. Safe to use from threads; never raises."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._key = keys.metrics()
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()
        self._thread: threading.Thread | None = None

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """A counter grows."""
        self._add({series(name, labels): by})

    def observe(self, name: str, value: float, **labels: str) -> None:
        """One value of a histogram."""
        place = bisect_left(BUCKETS, value)
        bound = repr(BUCKETS[place]) if place < len(BUCKETS) else "+Inf"
        self._add({series(f"{name}_bucket", {**labels, "le": bound}): 1, series(f"{name}_sum", labels): value})

    def flush(self) -> None:
        """Pass on what waits; where Redis does not answer it goes on waiting."""
        with self._lock:
            waiting, self._waiting = self._waiting, Counter()
        if not waiting:
            return
        try:
            pipe = self._client.pipeline(transaction=False)
            for field, value in waiting.items():
                pipe.hincrbyfloat(self._key, field, value)
            pipe.execute()
        except redis.RedisError:
            self._add(waiting)

    def keep_flushing(self) -> None:
        """From now on a thread flushes every `_FLUSH_SECONDS`. For processes that live long; call after the fork."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(_FLUSH_SECONDS):
            with suppress(Exception):  # counting must never be what breaks
                self.flush()

    def _add(self, values: dict[str, float] | Counter[str]) -> None:
        with self._lock:
            for field, value in values.items():
                if field in self._waiting or len(self._waiting) < _MAX_WAITING:
                    self._waiting[field] += value  # type: ignore[assignment]
