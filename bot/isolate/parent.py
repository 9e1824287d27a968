"""The parent's side: start a child, talk to it line by line, know why it died."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any


class Died(Exception):
    """The child ended, or had to be ended, before it answered. The text goes after "the analysis"."""


class Child:
    """One child process. It sees no variable of ours, no terminal, and the root folder as working directory."""

    def __init__(self, module: str) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd="/",
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},  # no secret, no proxy, no PYTHON* of ours
            start_new_session=True,  # Ctrl-C is the parent's business
        )
        self._rest = b""

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def send(self, document: Mapping[str, Any]) -> None:
        """Write one document. Raises `Died`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise Died(self._why()) from None

    def receive(self, deadline: float) -> dict[str, Any]:
        """The next document. Raises `Died`; `deadline` is a `time.monotonic` value, after which the child is killed."""
        while b"\n" not in self._rest:
            self._rest += self._chunk(deadline)
        line, _, self._rest = self._rest.partition(b"\n")
        document: dict[str, Any] = json.loads(line)
        return document

    def _chunk(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            self._process.kill()
            raise Died("took too long")
        chunk = os.read(self._process.stdout.fileno(), 1 << 16)
        if not chunk:
            raise Died(self._why())
        return chunk

    def _why(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        return why(code, self._errors.read()[-10_000:])

    def close(self) -> None:
        """End the child and wait for it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            try:
                if stream is not None:
                    stream.close()
            except BrokenPipeError:  # a request the dead child never took
                continue


def why(code: int, errors: bytes) -> str:
    """A child's end in words, from its exit code and what it wrote to stderr."""
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
        return f"was ended by {name}"
    last = errors.decode(errors="replace").strip().splitlines()[-1:] or [""]
    return f"ended with {last[0].split(':')[0] or f'code {code}'}"
