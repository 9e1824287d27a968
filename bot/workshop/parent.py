"""Run one analysis in a child with limits; when it dies, leave out the file it was at and try again, a few times."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot.core.commands import Command
from bot.core.plan import Plan
from bot.core.plan_json import plan_from_json, review_input_to_json
from bot.core.review_input import ReviewInput
from bot.redact import redact

_log = logging.getLogger("preflight.workshop")
_MAX_DEATHS = 4
_COMMAND = (sys.executable, "-I", "-m", "bot.workshop.child")


class AnalysisDied(Exception):
    """The child died and leaving files out did not help. The text is fit for the check run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one child. The wall clock covers what CPU time does not (swapping, a stopped process)."""

    wall_seconds: float = 240.0
    memory_bytes: int = 4 << 30


@dataclass(frozen=True, slots=True)
class _Outcome:
    result: Any
    at: str | None
    why: str


def review_in_child(given: ReviewInput, limits: Limits) -> Plan:
    """`bot.core.review.review`, where nothing it reads can hurt us. Raises `AnalysisDied`."""

    def document(current: ReviewInput) -> dict[str, Any]:
        return review_input_to_json(current)

    return plan_from_json(_until_it_lives("review", given, document, limits))


def answer_in_child(command: Command, given: ReviewInput, limits: Limits) -> str:
    """The answer to a slash command. Raises `AnalysisDied`."""

    def document(current: ReviewInput) -> dict[str, Any]:
        return {"name": command.name, "words": list(command.words), "input": review_input_to_json(current)}

    return str(_until_it_lives("command", given, document, limits))


def _until_it_lives(task: str, given: ReviewInput, document: Any, limits: Limits) -> Any:
    skip = dict(given.skip)
    for _ in range(_MAX_DEATHS):
        outcome = _run(task, document(replace(given, skip=skip)), limits)
        if not outcome.why:
            return outcome.result
        _log.warning("analysis died: %s at %s", outcome.why, outcome.at)
        if outcome.at is None or outcome.at in skip:
            raise AnalysisDied(f"the analysis {outcome.why}")
        skip[outcome.at] = f"the analysis {outcome.why} at this file"
    raise AnalysisDied(f"the analysis died {_MAX_DEATHS} times, each at another file: {', '.join(sorted(skip))}")


def _run(task: str, document: Mapping[str, Any], limits: Limits) -> _Outcome:
    cpu = int(limits.wall_seconds) + 1
    request = {
        "task": task,
        "document": document,
        "limits": {"memory_bytes": limits.memory_bytes, "cpu_seconds": cpu},
    }
    process = subprocess.Popen(
        _COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},  # no secret, no proxy, no PYTHON* of ours
    )
    try:
        out, err = process.communicate(json.dumps(request).encode(), timeout=limits.wall_seconds)
        why = "" if process.returncode == 0 else _why(process.returncode, err)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        why = f"took longer than {limits.wall_seconds:.0f} s"
    except BaseException:
        process.kill()  # the job was stopped: so is its child
        process.communicate()
        raise
    if err:
        _log.info("child: %s", redact(err.decode(errors="replace"))[-2_000:])
    return _read(out, why)


def _read(out: bytes, why: str) -> _Outcome:
    at: str | None = None
    result: Any = None
    for line in out.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            break  # cut by the death
        at = document.get("at", at)
        if "result" in document:
            result = document["result"]
    if not why and result is None:
        why = "gave no result"
    return _Outcome(result, at, why)


def _why(code: int, err: bytes) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
        return f"was ended by {name}"
    last = err.decode(errors="replace").strip().splitlines()[-1:] or [""]
    return f"ended with {last[0].split(':')[0] or f'code {code}'}"
