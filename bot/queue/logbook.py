"""One canonical line for each job: what it was, how long its stages took, how it ended; and the same as metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from bot.telemetry.logs import bind, event
from bot.telemetry.meter import Meter

_log = logging.getLogger("preflight.jobs")


class Logbook:
    """Collects fields and writes the line when the job ends, however it ends.

    What it is made with (delivery, review, pull request) is part of every line that the job writes.
    """

    def __init__(self, job: str, meter: Meter | None = None, **ids: object) -> None:
        self._job = job
        self._meter = meter
        self._ids: dict[str, object] = {"job": job, **{key: value for key, value in ids.items() if value}}
        self._values: dict[str, object] = {}
        self._stages: dict[str, float] = {}
        self._start = time.monotonic()
        self._binding: AbstractContextManager[None] | None = None

    def note(self, **values: object) -> None:
        """Add to the line."""
        self._values |= values

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._stages[name] = time.monotonic() - start

    def __enter__(self) -> Logbook:
        self._binding = bind(**self._ids)
        self._binding.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self._values.setdefault("outcome", f"raised {kind.__name__}")
        self._stages["total"] = time.monotonic() - self._start
        times = {f"{name}_s": round(seconds, 3) for name, seconds in self._stages.items()}
        event(_log, "job ended", {**self._values, **times})
        if self._meter is not None:
            self._count(self._meter)
        if self._binding is not None:
            self._binding.__exit__(None, None, None)

    def _count(self, meter: Meter) -> None:
        # The first words of an outcome: what follows names a reason and would make a series for each.
        outcome = " ".join(str(self._values.get("outcome", "done")).partition(":")[0].split()[:2])
        meter.count("preflight_jobs", job=self._job, outcome=outcome)
        for name, seconds in self._stages.items():
            meter.observe("preflight_job_seconds", seconds, job=self._job, stage=name)
        meter.flush()
