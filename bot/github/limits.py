"""One writer at a time for an installation, at GitHub's pace, across all workers.

GitHub: >= 1 s between writes, 80 content-creating requests a minute and 500 an hour; going on while limited can get
the app banned. The lease is fenced: who lost it (it expired while its process slept) does not write any more.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from redis import RedisError

from bot.errors import Unavailable
from bot.github.errors import RateLimited
from bot.settings import Pace
from bot.store import GENERATION_TTL, WRITES_TTL, Client, Keys
from bot.telemetry.meter import series

_LEASE_MS = 15_000
_KEEP_SECONDS = 4.0
"""A live publisher renews its lease this often, whatever it waits for; one that was killed blocks nobody for long."""
PATIENCE = 120.0
"""Seconds a job waits for its turn before it is put off."""
_SHORT = 5.0
"""Seconds of a pause that are slept; a longer one puts the job off."""

# KEYS[1] writes; ARGV now, gap, per minute, per hour, ttl, member. Answers the wait in ms (as text); 0 = go, noted.
_TAKE = """
local now = tonumber(ARGV[1])
redis.call('zremrangebyscore', KEYS[1], '-inf', now - 3600)
local last = redis.call('zrange', KEYS[1], -1, -1, 'withscores')
local wait = 0
if last[2] then wait = math.max(wait, tonumber(last[2]) + tonumber(ARGV[2]) - now) end
local function window(seconds, most)
  if redis.call('zcount', KEYS[1], now - seconds, '+inf') >= most then
    local oldest = redis.call('zrangebyscore', KEYS[1], now - seconds, '+inf', 'withscores', 'limit', 0, 1)
    if oldest[2] then wait = math.max(wait, tonumber(oldest[2]) + seconds - now) else wait = math.max(wait, seconds) end
  end
end
window(60, tonumber(ARGV[3]))
window(3600, tonumber(ARGV[4]))
if wait > 0 then return tostring(math.ceil(wait * 1000)) end
redis.call('zadd', KEYS[1], now, ARGV[6])
redis.call('expire', KEYS[1], ARGV[5])
return '0'
"""
_EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def note_answer(client: Client, keys: Keys, who: str, verb: str, status: int, headers: Mapping[str, Any]) -> None:
    """Count a request and keep what its answer says of the hourly budget. Never fails: it is bookkeeping."""
    labels = {"installation": who, "status": str(status) if status else "none", "verb": verb}
    named = ("x-ratelimit-remaining", "x-ratelimit-limit", "x-ratelimit-reset")
    left = [str(headers.get(name, "")) for name in named]
    with suppress(RedisError):
        pipe = client.pipeline(transaction=False)
        pipe.hincrbyfloat(keys.metrics(), series("preflight_github_requests", labels), 1)
        if all(text.isdecimal() for text in left):
            pipe.hset(keys.budgets(), who, json.dumps([int(text) for text in left]))
        pipe.execute()


class AppGate:
    """The app as itself: nothing is held back, everything is counted."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def before_read(self) -> None: ...

    def before_write(self) -> None: ...

    def heard(self, verb: str, status: int, headers: Mapping[str, Any]) -> None:
        note_answer(self._client, self._keys, "app", verb, status, headers)

    def pause(self, seconds: float) -> None: ...


class LeaseLost(Unavailable):
    """Another publisher took over: stop writing; the job looks again later."""


class Throttle:
    """The write gate of one installation. Writes happen inside `publishing` only."""

    def __init__(
        self, client: Client, keys: Keys, installation_id: int, pace: Pace, patience: float = PATIENCE
    ) -> None:
        self._client = client
        self._keys = keys
        self._installation = installation_id
        self._pace = pace
        self._patience = patience
        self._lease: bytes | None = None
        self.fence = 0

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Hold the installation's publisher lease. Nested use keeps the outer lease."""
        if self._lease is not None:
            yield
            return
        self._acquire()
        over = threading.Event()
        keeper = threading.Thread(target=self._keep, args=[over], name="lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            lease, self._lease = self._lease, None
            self._client.eval(_RELEASE, 1, self._keys.publisher(self._installation), lease or b"")

    def before_read(self) -> None:
        """Sleep out a short pause, raise `RateLimited` for a long one."""
        until = float(self._client.get(self._keys.pause(self._installation)) or 0)
        left = until - time.time()
        if left > _SHORT:
            raise RateLimited("GitHub asked this installation to wait", left)
        if left > 0:
            time.sleep(left)

    def before_write(self) -> None:
        """Wait for the budget, then make sure that the lease is still ours."""
        if self._lease is None:
            raise RuntimeError("a write outside of Throttle.publishing()")
        self.before_read()
        waited = 0.0
        while (wait := self._take()) > 0:
            if waited + wait > self._patience:
                raise RateLimited("the write budget of this installation is used up", wait)
            self._extend()
            time.sleep(min(wait, 10.0))
            waited += min(wait, 10.0)
        self._extend()

    def heard(self, verb: str, status: int, headers: Mapping[str, Any]) -> None:
        """An answer (0: none came) and what it says of the hourly budget."""
        note_answer(self._client, self._keys, str(self._installation), verb, status, headers)

    def pause(self, seconds: float) -> None:
        """Stop the whole installation, every worker, for `seconds`."""
        until = time.time() + seconds
        self._client.set(self._keys.pause(self._installation), repr(until), ex=max(1, int(seconds) + 1))

    def _take(self) -> float:
        now = time.time()
        answer: Any = self._client.eval(
            _TAKE,
            1,
            self._keys.writes(self._installation),
            repr(now),
            str(self._pace.seconds_between_writes),
            str(self._pace.writes_per_minute),
            str(self._pace.writes_per_hour),
            str(WRITES_TTL),
            f"{now!r}-{secrets.token_hex(4)}",
        )
        return float(answer) / 1000

    def _acquire(self) -> None:
        key = self._keys.publisher(self._installation)
        end = time.monotonic() + self._patience
        lease = secrets.token_hex(16).encode()
        while not self._client.set(key, lease, nx=True, px=_LEASE_MS):
            if time.monotonic() > end:
                raise Unavailable("another job publishes to this installation", 15)
            time.sleep(0.1)
        self._lease = lease
        pipe = self._client.pipeline()
        pipe.incr(self._keys.fence(self._installation))
        pipe.expire(self._keys.fence(self._installation), GENERATION_TTL)
        self.fence = int(pipe.execute()[0])

    def _keep(self, over: threading.Event) -> None:
        key, lease = self._keys.publisher(self._installation), self._lease or b""
        while not over.wait(_KEEP_SECONDS):
            with suppress(RedisError):  # the next write finds out whether it is still ours
                self._client.eval(_EXTEND, 1, key, lease, str(_LEASE_MS))

    def _extend(self) -> None:
        key = self._keys.publisher(self._installation)
        if not self._client.eval(_EXTEND, 1, key, self._lease or b"", str(_LEASE_MS)):
            raise LeaseLost("the publisher lease was lost", 5)
