"""The child's side: one JSON document a line, in and out. Started as ``python -I -m MODULE``."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from analyzer.api import Files
from bot.isolate.priority import share_niceness

_PR_SET_PDEATHSIG = 1
Say = Callable[[Mapping[str, Any]], None]


class Announcing:
    """A tree that says which file is read, so that the parent can name the one that killed us."""

    def __init__(self, tree: Files, say: Say) -> None:
        self._tree = tree
        self._say = say

    def paths(self) -> Collection[str]:
        """Every path of the tree."""
        return self._tree.paths()

    def read(self, path: str) -> bytes | None:
        """The bytes of one file, after saying its name."""
        self._say({"at": path})
        return self._tree.read(path)


def answers() -> Say:
    """The way to the parent. From now on only what is said here is an answer: anything that prints goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(document: Mapping[str, Any]) -> None:
        out.write(json.dumps(document) + "\n")
        out.flush()

    return say


def requests() -> Iterator[Any]:
    """What the parent sends, one document a line."""
    return (json.loads(line) for line in sys.stdin)


def confine(memory_bytes: int, cpu_seconds: int | None = None) -> None:
    """Limit this process for good: memory, no file to write, no life after the parent's; `cpu_seconds` in total.

    It leads a session of its own (`bot.isolate.parent`), and is as nice there as the worker that started it.
    """
    share_niceness()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a killed parent leaves no analysis behind
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, 0)
    if cpu_seconds is not None:
        _limit(resource.RLIMIT_CPU, cpu_seconds)


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        resource.setrlimit(what, (value, value))
    except (ValueError, OSError) as error:  # macOS knows RLIMIT_AS and refuses it
        print(f"no limit {what}: {error}", file=sys.stderr)  # noqa: T201  stderr is the child's log
