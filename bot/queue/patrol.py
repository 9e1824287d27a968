"""Beside the sweeper: looks on GitHub for what never reached us. A thread of its own, since GitHub may be slow."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Protocol

import redis

from bot.errors import PreflightError
from bot.github.app import AppApi
from bot.queue.lease import Lease
from bot.queue.open_pulls import OpenPulls
from bot.queue.redeliver import Redelivery
from bot.queue.room import Room

_log = logging.getLogger("preflight.sweep")
_LEASE_SECONDS = 60.0
"""A supervisor that dies is replaced after this. Two that look at once do no harm: what they ask for is done once."""


class Duty(Protocol):
    """Something that is looked after now and then."""

    def step(self, now: float) -> int: ...


@dataclass(slots=True)
class _Turn:
    duty: Duty
    every: float
    next: float = 0.0


class Patrol:
    """Runs its duties until `stop`; of several supervisors only the one with the lease does. Zero seconds: never."""

    def __init__(self, room: Room) -> None:
        times, api = room.settings.times, AppApi(room.settings, room.client, room.keys)
        turns = [
            _Turn(Redelivery(room, api), times.redelivery),
            _Turn(OpenPulls(room, api), min(times.watch, times.sweep)),
        ]
        self._turns = [turn for turn in turns if turn.every > 0]
        self._lease = Lease(room.client, room.keys.patrol())
        self._stop = threading.Event()
        self._pause = max(0.2, min((turn.every for turn in self._turns), default=60.0))

    def run(self) -> None:
        """Until `stop`."""
        while not self._stop.wait(self._pause):
            self.step(time.time())

    def stop(self) -> None:
        """End `run` soon."""
        self._stop.set()

    def step(self, now: float) -> None:
        """What is due. A duty that fails is logged and comes again at its time."""
        for turn in self._turns:
            if now < turn.next or self._stop.is_set():
                continue
            turn.next = now + turn.every
            try:
                if self._lease.hold(_LEASE_SECONDS):
                    turn.duty.step(now)
            except (redis.RedisError, PreflightError) as error:
                _log.warning("%s put off: %s", type(turn.duty).__name__, error)
            except Exception:  # noqa: BLE001  the watchdog must outlive every bug; the traceback is in the log
                _log.exception("%s failed", type(turn.duty).__name__)
