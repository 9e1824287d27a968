"""The child: reads one JSON document, analyses, writes JSON lines. Started as ``python -I -m bot.workshop.child``.

Its input is hostile source text. It has limits, an empty environment and nothing worth stealing; each file is
announced before it is worked on, so that the parent can name the one that killed us.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TextIO

from bot.sources.base import Tree

_PR_SET_PDEATHSIG = 1


class Announcing:
    """A tree that says which file is read."""

    def __init__(self, tree: Tree, say: Callable[[str], None]) -> None:
        self._tree = tree
        self._say = say

    def paths(self) -> Collection[str]:
        return self._tree.paths()

    def read(self, path: str) -> bytes | None:
        self._say(path)
        return self._tree.read(path)

    def blob_sha(self, path: str) -> str | None:
        return self._tree.blob_sha(path)


def review(document: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    """The plan of a pull request."""
    from bot.core.plan_json import plan_to_json, review_input_from_json
    from bot.core.review import review as decide

    given = review_input_from_json(document)
    plan = decide(replace(given, head=Announcing(given.head, say), base=Announcing(given.base, say)))
    return plan_to_json(plan)


def command(document: Mapping[str, Any], say: Callable[[str], None]) -> str:
    """The answer to a slash command, with the run configs of the launch files at head."""
    from bot.core.commands import CommandContext, answer
    from bot.core.commands.grammar import Command
    from bot.core.plan_json import review_input_from_json
    from bot.core.review_input import WithoutFiles
    from bot.workshop.run_configs import run_configs

    given = review_input_from_json(document["input"])
    head = Announcing(WithoutFiles(given.head, given.skip), say)
    context = CommandContext(head_sha=given.snapshot.head_sha, run_configs=run_configs(head, given))
    return answer(Command(name=document["name"], words=tuple(document["words"])), context)


_TASKS: dict[str, Callable[[Mapping[str, Any], Callable[[str], None]], Any]] = {"review": review, "command": command}


def main() -> None:
    """Serve one document from stdin."""
    document = json.load(sys.stdin)
    _limit(document["limits"])
    # Only what we write ourselves is the answer: anything that prints goes to stderr.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    result = _TASKS[document["task"]](document["document"], lambda path: _line(out, {"at": path}))
    _line(out, {"result": result})


def _line(out: TextIO, document: Mapping[str, Any]) -> None:
    out.write(json.dumps(document) + "\n")
    out.flush()


def _limit(limits: Mapping[str, int]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a killed worker leaves no analysis behind
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limits["memory_bytes"], limits["memory_bytes"]))
    resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu_seconds"], limits["cpu_seconds"]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it has no file to write


if __name__ == "__main__":
    main()
