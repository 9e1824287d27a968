"""Run one analysis in a child with limits; when it dies, leave out the file it was at and try again, a few times."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot.core.commands import Answer, Command
from bot.core.commands.base import command_file
from bot.core.plan import Plan
from bot.core.plan_json import plan_from_json, review_input_to_json
from bot.core.review_input import ReviewInput
from bot.isolate.cache import MAX_ENTRY_BYTES, Store
from bot.isolate.parent import Child, Died, Overdue, python_module
from bot.redact import redact

_log = logging.getLogger("preflight.workshop")
_MAX_DEATHS = 16
_MAX_ERRANDS = 10_000
_MAX_KEPT_BYTES = 64 << 20  # of all entries of one child; a review of 3,000 files leaves about half of that
_COMMAND = python_module("bot.workshop.child")


class AnalysisDied(Exception):
    """The child died and leaving files out did not help. The text is fit for the check run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one child. The wall clock covers what CPU time does not (swapping, a stopped process)."""

    wall_seconds: float = 240.0
    seconds_per_file: float = 60.0
    """Of its processor time without news of another file: one slow file must not use up the time of all, and a file is
    not slow because the machine is busy."""
    memory_bytes: int = 4 << 30


@dataclass(frozen=True, slots=True)
class _Outcome:
    result: Any
    at: str | None
    why: str


def review_in_child(given: ReviewInput, limits: Limits, store: Store | None = None) -> Plan:
    """`bot.core.review.review`, where nothing it reads can hurt us, with the reports that `store` remembers. Raises
    `AnalysisDied`."""
    return plan_from_json(_until_it_lives("review", given, review_input_to_json, limits, store))


def branch_in_child(given: ReviewInput, limits: Limits) -> Plan:
    """`bot.core.branch.check_branch`, likewise. Raises `AnalysisDied`."""
    return plan_from_json(_until_it_lives("branch", given, review_input_to_json, limits))


def admit_in_child(manifest: str, given: Mapping[str, Any], limits: Limits) -> list[dict[str, Any]]:
    """The launches of a Kubernetes object (`bot.workshop.child.admit`). One try. Raises `AnalysisDied`."""
    outcome = _run("admit", {"manifest": manifest, "input": given}, limits, time.monotonic() + limits.wall_seconds)
    if outcome.why:
        raise AnalysisDied(f"the analysis {outcome.why}")
    return list(outcome.result)


def answer_in_child(command: Command, given: ReviewInput, limits: Limits, sender: str = "") -> Answer:
    """The answer to a slash command that looks at code. Raises `AnalysisDied`."""

    def document(current: ReviewInput) -> dict[str, Any]:
        words = list(command.words)
        return {"name": command.name, "words": words, "sender": sender, "input": review_input_to_json(current)}

    found = _until_it_lives("command", given, document, limits)
    if "text" in found:
        return str(found["text"])
    kind = command_file(command.name).act
    if kind is None:
        raise TypeError(f"the command {command.name} does not say what its act is")
    return kind(**found["act"])


def _until_it_lives(task: str, given: ReviewInput, document: Any, limits: Limits, store: Store | None = None) -> Any:
    skip = dict(given.skip)
    end = time.monotonic() + 2 * limits.wall_seconds
    for _ in range(_MAX_DEATHS):
        outcome = _run(task, document(replace(given, skip=skip)), limits, end, store)
        if not outcome.why:
            return outcome.result
        _log.warning("analysis died: %s at %s", outcome.why, outcome.at)
        if outcome.at is None or outcome.at in skip:
            raise AnalysisDied(f"the analysis {outcome.why}")
        skip[outcome.at] = f"the analysis {outcome.why} at this file"
    raise AnalysisDied(f"the analysis died {_MAX_DEATHS} times, each at another file: {', '.join(sorted(skip))}")


class _Errands:
    """What a child wants from the store or puts there. It may be anybody's by then: a key is one of ours, and there is
    an end to it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left = _MAX_ERRANDS
        self._room = _MAX_KEPT_BYTES

    def run(self, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The document to send back, if one is waited for."""
        self._left -= 1
        key, entry = answer["store"], answer.get("entry")
        is_fine = self._left >= 0 and re.fullmatch("[0-9a-f]{64}", key) is not None
        if entry is None:
            found = self._store.get(key) if is_fine else None
            return {"entry": None if found is None else found.decode("latin-1")}
        self._room -= len(entry)
        if is_fine and self._room >= 0 and len(entry) <= 2 * MAX_ENTRY_BYTES:
            self._store.put(key, entry.encode("latin-1", "replace"))
        return None


def _run(task: str, document: Mapping[str, Any], limits: Limits, end: float, store: Store | None = None) -> _Outcome:
    cpu = int(limits.wall_seconds) + 1
    request = {
        "task": task,
        "document": document,
        "limits": {"memory_bytes": limits.memory_bytes, "cpu_seconds": cpu},
        "remembers": store is not None,
    }
    deadline = min(time.monotonic() + limits.wall_seconds, end)
    at: str | None = None
    errands = _Errands(store) if store is not None else None
    child = Child(_COMMAND)
    try:
        child.send(request)
        while "result" not in (answer := child.receive(child.allowance(limits.seconds_per_file, deadline))):
            if "at" in answer:
                at = str(answer["at"])
            elif errands is not None and (found := errands.run(answer)) is not None:
                child.reply(found, child.allowance(limits.seconds_per_file, deadline))
        return _Outcome(answer["result"], at, "")
    except Overdue:
        return _Outcome(None, at, f"took longer than {min(limits.seconds_per_file, limits.wall_seconds):.0f} s")
    except Died as death:
        return _Outcome(None, at, str(death))
    except (KeyError, TypeError, AttributeError):  # an errand of no form of ours
        _log.exception("the child asked for what there is not")
        return _Outcome(None, at, "gave no answer")
    finally:  # also when the job is stopped: so is its child
        child.close()
        if child.errors:
            _log.info("child: %s", redact(child.errors)[-2_000:])
