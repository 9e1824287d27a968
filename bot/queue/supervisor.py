"""``preflight worker``: rq workers as child processes, restarted when they die, and the watchdogs beside them."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from bot.settings import WorkerTimes

_log = logging.getLogger("preflight.supervisor")
_LONG_LIFE = 60.0
"""A worker that lived this long starts again at once."""


class Watchdog(Protocol):
    """Runs on a thread beside the workers: `bot.queue.sweep`, `bot.queue.patrol`."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


@dataclass
class _Slot:
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    start_at: float = 0.0
    backoff: float = 0.5


class Supervisor:
    """Keeps `num_workers` running until SIGTERM or SIGINT; then lets them finish their jobs."""

    def __init__(self, num_workers: int, times: WorkerTimes, *watchdogs: Watchdog) -> None:
        self._slots = [_Slot() for _ in range(num_workers)]
        self._times = times
        self._watchdogs = watchdogs
        self._stop = threading.Event()

    def run(self) -> int:
        """Blocks. Returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        threads = [
            threading.Thread(target=dog.run, name=type(dog).__name__.lower(), daemon=True) for dog in self._watchdogs
        ]
        for thread in threads:
            thread.start()
        while not self._stop.is_set():
            for slot in self._slots:
                self._tend(slot, time.monotonic())
            self._stop.wait(0.2)
        for dog in self._watchdogs:
            dog.stop()
        self._end_all()
        for thread in threads:
            thread.join(timeout=10)
        return 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()

    def _tend(self, slot: _Slot, now: float) -> None:
        if slot.process is None:
            if now >= slot.start_at:
                # The worker ends itself when we are gone (PR_SET_PDEATHSIG in `preflight worker --one`).
                slot.process = subprocess.Popen([sys.executable, "-I", "-m", "preflight", "worker", "--one"])
                slot.started = now
        elif slot.process.poll() is not None:
            code, slot.process = slot.process.returncode, None
            slot.backoff = 0.5 if now - slot.started > _LONG_LIFE else min(self._times.restart, slot.backoff * 2)
            slot.start_at = now + slot.backoff
            _log.warning("worker ended with code %s, next in %.1f s", code, slot.backoff)

    def _end_all(self) -> None:
        running = [slot.process for slot in self._slots if slot.process is not None]
        for process in running:
            process.terminate()
        end = time.monotonic() + self._times.stop
        for process in running:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
