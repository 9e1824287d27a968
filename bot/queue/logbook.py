"""One canonical line for each job: what it was, how long its stages took, how it ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

_log = logging.getLogger("preflight.jobs")


class Logbook:
    """Collects ``key=value`` and writes the line when the job ends, however it ends."""

    def __init__(self, job: str, **first: str) -> None:
        self._values: dict[str, object] = {"job": job, **first}
        self._start = time.monotonic()

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
            self._values[f"{name}_s"] = f"{time.monotonic() - start:.2f}"

    def __enter__(self) -> Logbook:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self._values.setdefault("outcome", f"raised {kind.__name__}")
        self._values["total_s"] = f"{time.monotonic() - self._start:.2f}"
        line = " ".join(f"{key}={_quoted(item)}" for key, item in self._values.items())
        _log.info("%s", line)


def _quoted(value: object) -> str:
    text = str(value)
    return f'"{text}"' if " " in text else text
