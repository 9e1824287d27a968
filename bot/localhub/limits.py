"""The primary rate limit: counted and told in headers, per installation; nobody is stopped unless a fault says so."""

from __future__ import annotations

import time
from collections import Counter
from weakref import WeakKeyDictionary

from bot.localhub.access import Caller
from bot.localhub.state import Hub

LIMIT_PER_HOUR = 5_000
_used: WeakKeyDictionary[Hub, Counter[tuple[int, int]]] = WeakKeyDictionary()


def _window() -> int:
    return int(time.time()) // 3600


def _key(caller: Caller) -> tuple[int, int]:
    if caller.user is not None:
        return (caller.user.id, _window())
    return (caller.token.installation.id if caller.token else -caller.app.id, _window())


def count(hub: Hub, caller: Caller) -> None:
    """One request more."""
    _used.setdefault(hub, Counter())[_key(caller)] += 1


def rate(hub: Hub, caller: Caller) -> dict[str, int]:
    """A ``rate-limit`` object."""
    used = _used.get(hub, Counter())[_key(caller)]
    reset = (_window() + 1) * 3600
    return {"limit": LIMIT_PER_HOUR, "used": used, "remaining": max(0, LIMIT_PER_HOUR - used), "reset": reset}


def headers(hub: Hub, caller: Caller) -> dict[str, str]:
    """The headers GitHub sends with every answer."""
    found = {f"X-RateLimit-{name.capitalize()}": str(value) for name, value in rate(hub, caller).items()}
    return found | {"X-RateLimit-Resource": "core"}
