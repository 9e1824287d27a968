"""What crossed the hub: every API request and answer, without credentials."""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

_SECRET = re.compile(r"gh[a-z]_[A-Za-z0-9_.\-]+")
_MAX_KEPT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its answer. `path` has no prefix; bodies are parsed JSON, or None when they were none.

    `is_fault` marks an answer that a fault made, which need not fit GitHub's description.
    """

    method: str
    path: str
    query: str
    request: Any
    status: int
    response: Any
    is_fault: bool = False

    def to_json(self) -> dict[str, Any]:
        """For the control API."""
        return asdict(self)


def without_secrets(body: bytes) -> Any:
    """Parsed JSON in which tokens were blanked; None when it is not JSON."""
    try:
        return json.loads(_SECRET.sub("ghs_redacted", body.decode("utf-8")))
    except ValueError:
        return None


class Recorder:
    """Keeps the newest exchanges."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Exchange] = deque(maxlen=_MAX_KEPT)

    def add(self, exchange: Exchange) -> None:
        """Note one exchange."""
        with self._lock:
            self._kept.append(exchange)

    def all(self) -> list[Exchange]:
        """Everything kept, oldest first."""
        with self._lock:
            return list(self._kept)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
