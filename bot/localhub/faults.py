"""Bad days on demand: refuse the next requests that match, perform a write and lose its answer, or be slow."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["status", "lose", "delay", "late", "call"]


@dataclass(slots=True, kw_only=True, eq=False)
class Fault:
    """`path` is a regular expression searched in the API path (without its prefix). `skip` lets that many through,
    `min_bytes` requests with a smaller body: a query that asks for too much at once.

    ``status``: answer `status` (when `perform`, only after doing what was asked); ``lose``: do it, then close the
    connection without an answer; ``delay``: wait `seconds` first; ``late``: do it, then wait `seconds` before the
    answer; ``call``: do `action` with the caller's TCP port before the request is looked at (when `perform`: after it
    was done, before it is answered), then go on. `action` is for those who run the hub inside their own process.
    """

    kind: Kind
    method: str = ""
    path: str = ""
    count: int = 1
    skip: int = 0
    min_bytes: int = 0
    status: int = 502
    perform: bool = False
    seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=lambda: {"message": "Server Error"})
    action: Callable[[int], object] | None = None
    hits: int = 0

    def matches(self, method: str, path: str, num_bytes: int) -> bool:
        """Whether it concerns a request."""
        is_meant = (not self.method or method == self.method.upper()) and num_bytes >= self.min_bytes
        return is_meant and re.search(self.path, path) is not None


class Faults:
    """The faults that wait, oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        """Let a fault wait for its requests."""
        with self._lock:
            self._waiting.append(fault)
        return fault

    def remove(self, faults: Iterable[Fault]) -> None:
        """Some of them will not happen."""
        with self._lock:
            for fault in faults:
                if fault in self._waiting:
                    self._waiting.remove(fault)

    def clear(self) -> None:
        """Good weather again."""
        with self._lock:
            self._waiting.clear()

    def take(self, method: str, path: str, num_bytes: int) -> Fault | None:
        """The fault that hits this request; it is used up by `count` of them."""
        with self._lock:
            for fault in self._waiting:
                if not fault.matches(method, path, num_bytes):
                    continue
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.hits += 1
                if fault.hits >= fault.count:
                    self._waiting.remove(fault)
                return fault
        return None
