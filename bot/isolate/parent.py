"""The parent's side: start a child, talk to it line by line, know why it died."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

_KEPT_ERRORS = 10_000  # bytes of its stderr
_SECONDS_TO_END = 10.0
_PATIENCE = 5.0
_LOOK_SECONDS = 0.1
_MAX_LINE_BYTES = 64 << 20
"""Of one document from a child; a review of a large pull request is a few MiB."""


class Died(Exception):
    """The child ended, or had to be ended, before it answered. The text goes after "the analysis"."""


def python_module(name: str) -> tuple[str, ...]:
    """The command that runs a module of ours, whatever lies in the working directory or in ``PYTHONPATH``."""
    return (sys.executable, "-I", "-m", name)


class Overdue(Died):
    """The child did not answer in time."""


class Allowance:
    """The time a child has for one answer: `seconds` of its own processor time, however busy the machine is, and
    `_PATIENCE` times that on the wall for one that waits, not beyond `end` (of `time.monotonic`). Where the system does
    not tell, the wall counts alone."""

    def __init__(self, pid: int, seconds: float, end: float = math.inf) -> None:
        self._pid = pid
        spent = _processor_seconds(pid)
        self._work = None if spent is None else spent + seconds
        self._end = min(end, time.monotonic() + (seconds if spent is None else seconds * _PATIENCE))

    def left(self) -> float:
        """How long to wait until it may be over; nothing when it is."""
        left = self._end - time.monotonic()
        spent = _processor_seconds(self._pid)
        if self._work is None or spent is None:
            return left
        return min(left, max(_LOOK_SECONDS, self._work - spent)) if spent < self._work else 0.0


def _left(deadline: float | Allowance) -> float:
    return deadline.left() if isinstance(deadline, Allowance) else deadline - time.monotonic()


def _processor_seconds(pid: int) -> float | None:
    """What a process has used so far (Linux: the clock of a process has a number made of its own)."""
    try:
        return time.clock_gettime(~pid << 3 | 2) if sys.platform == "linux" else None
    except OSError:
        return None


class Child:
    """One child process. It sees no variable of ours, no terminal, and the root folder as working directory."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},  # no secret, no proxy, no PYTHON* of ours
            start_new_session=True,  # Ctrl-C is the parent's business
        )
        self._rest = b""
        self._errors = b""

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def reply(self, document: Mapping[str, Any], deadline: Allowance) -> None:
        """Write one document to a child that asked for it, and may not be listening. Raises `Died`, `Overdue`."""
        assert self._process.stdin is not None
        place, left = self._process.stdin.fileno(), json.dumps(document).encode() + b"\n"
        while left:
            if not select.select([], [place], [], max(0.0, deadline.left()))[1]:
                if deadline.left() > 0:
                    continue
                self._process.kill()
                raise Overdue("took too long")
            try:
                left = left[os.write(place, left[: select.PIPE_BUF]) :]
            except OSError:
                raise Died(self._why()) from None

    def send(self, document: Mapping[str, Any]) -> None:
        """Write one document. Raises `Died`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise Died(self._why()) from None

    def allowance(self, seconds: float, end: float = math.inf) -> Allowance:
        """Time for one answer, from now on; see `Allowance`."""
        return Allowance(self._process.pid, seconds, end)

    def receive(self, deadline: float | Allowance) -> dict[str, Any]:
        """The next document. Raises `Died`; at `deadline` (of `time.monotonic`) the child is killed and `Overdue`,
        whatever it goes on to say: a child that was broken into may say anything, without an end."""
        parts, size = [self._rest], len(self._rest)
        while b"\n" not in parts[-1]:
            parts.append(self._chunk(deadline))
            size += len(parts[-1])
            if size > _MAX_LINE_BYTES:
                self._process.kill()
                raise Died("said more than an answer can hold")
        line, _, self._rest = b"".join(parts).partition(b"\n")
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            raise Died("gave no answer") from None
        if not isinstance(document, dict):
            raise Died("gave no answer")
        return document

    def _chunk(self, deadline: float | Allowance) -> bytes:
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        streams = [out, err]
        while True:
            left = _left(deadline)
            readable = [] if left <= 0 else select.select(streams, [], [], left)[0]
            if not readable:
                if isinstance(deadline, Allowance) and left > 0:
                    continue  # as long as it had to be asked about again; others may have held the processor
                self._process.kill()
                raise Overdue("took too long")
            if err in readable:
                text = os.read(err.fileno(), 1 << 16)
                self._errors = (self._errors + text)[-_KEPT_ERRORS:]
                streams = streams if text else [out]
            if out in readable:
                chunk = os.read(out.fileno(), 1 << 16)
                if not chunk:
                    raise Died(self._why())
                return chunk

    def _why(self) -> str:
        """Its end in words. It wrote its last: what is left in the pipe is all there will be."""
        assert self._process.stderr is not None
        try:
            code = self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._errors += self._process.stderr.read(_KEPT_ERRORS)
        return why(code, self._errors)

    def kill(self) -> None:
        """End the child; whoever waits for its answer hears that it died. Safe to call from another thread."""
        self._process.kill()

    def close(self) -> None:
        """End the child and wait for it."""
        self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None
        self._errors += self._process.stderr.read(_KEPT_ERRORS)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            try:
                if stream is not None:
                    stream.close()
            except BrokenPipeError:  # a request the dead child never took
                continue

    @property
    def errors(self) -> str:
        """The end of what a closed child wrote to stderr."""
        return self._errors.decode(errors="replace")


def why(code: int, errors: bytes) -> str:
    """A child's end in words, from its exit code and what it wrote to stderr."""
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
        return f"was ended by {name}"
    if code == 0:
        return "gave no result"
    last = errors.decode(errors="replace").strip().splitlines()[-1:] or [""]
    return f"ended with {last[0].split(':')[0] or f'code {code}'}"
