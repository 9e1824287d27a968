"""Analyse the targets of a tree in child processes; a file that kills one is named, every other file is reported."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analyzer.api import Options
from analyzer.errors import PreflightError
from analyzer.findings import Report, Skipped
from bot.core.reports import is_whole, merged, report_from_json
from bot.isolate.analysis import ListedFiles
from bot.isolate.cache import ReportCache, Store
from bot.isolate.parent import Child, Died, Overdue, python_module
from bot.isolate.snapshot import Snapshot

_COMMAND = python_module("bot.isolate.analysis")
_START_SECONDS = 60.0
FILES_FOR_A_CHILD = 8
"""A child takes a third of a second to start, in which it could have looked at as many files."""
_MAX_DEATHS_IN_A_ROW = 8
_MAX_TRIES = 3  # of one target: as it is, then without the files that seem to be the cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one child: its memory in bytes, and its processor seconds for one target (see `Allowance`)."""

    memory_bytes: int = 4 << 30
    seconds_per_file: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to analyse. `paths` are the Python files of the tree under `root` that imports may lead to; `texts` stand in
    for what is on disk."""

    root: Path
    paths: Sequence[str]
    targets: Sequence[str]
    options: Options
    texts: Mapping[str, bytes] = field(default_factory=dict)


def analyze_in_children(
    job: Job, num_children: int, limits: Limits | None = None, store: Store | None = None
) -> Report:
    """What `analyzer.api.analyze` says about the targets, whatever they do to the process that reads them.

    The same whatever the number of children (`num_children` at most), and with reports of earlier runs from `store`.
    Raises `PreflightError` where no child can be started at all.
    """
    done = analyze_each_in_children(job, num_children, limits, store)
    return merged(done[target] for target in dict.fromkeys(job.targets) if target in done)


def analyze_each_in_children(
    job: Job, num_children: int, limits: Limits | None = None, store: Store | None = None
) -> dict[str, Report]:
    """As `analyze_in_children`: the report of each target, which may show findings in any of them."""
    if not job.targets:
        return {}
    cache = _cache(job, store)
    done = {target: report for target in job.targets if cache and (report := cache.get(target))}
    left = [target for target in job.targets if target not in done]
    num_left = len(left)
    if done:
        num_children = min(num_children, 1 + num_left // FILES_FOR_A_CHILD)
    num_children = max(1, min(num_children, num_left))
    stop = threading.Event()
    waiting = _Waiting(left, num_children)
    lanes = [_Lane(job, limits or Limits(), waiting, index, stop, cache) for index in range(num_children)]
    with ThreadPoolExecutor(num_children) as threads:
        try:
            for part in [threads.submit(lane.run) for lane in lanes]:
                done.update(part.result())
        except BaseException:  # Ctrl-C, or a lane that could start no child: the others need not finish
            stop.set()
            for lane in lanes:
                lane.kill()
            raise
    return done


def _cache(job: Job, store: Store | None) -> ReportCache | None:
    """None where texts stand in for files: they are analysed once."""
    if store is None or job.texts:
        return None
    return ReportCache(store, job.options, Snapshot(ListedFiles(job.root, job.paths, {}), job.targets))


class _Waiting:
    """The targets that nobody has taken yet. Each lane has a part of them, one folder after the other: what they import
    is mostly the same, so that one child has read it. Who is ready takes from the end of the longest part."""

    def __init__(self, targets: Sequence[str], num_lanes: int) -> None:
        size = -(-len(targets) // num_lanes)
        self._parts = [deque(targets[lane * size : (lane + 1) * size]) for lane in range(num_lanes)]
        self._lock = threading.Lock()

    def take(self, lane: int) -> str | None:
        """The next one for a lane; None where none is left."""
        with self._lock:
            if self._parts[lane]:
                return self._parts[lane].popleft()
            longest = max(self._parts, key=len)
            return longest.pop() if longest else None


class _Lane:
    """One child at a time, fed from what waits for all lanes."""

    def __init__(
        self,
        job: Job,
        limits: Limits,
        waiting: _Waiting,
        index: int,
        stop: threading.Event,
        cache: ReportCache | None,
    ) -> None:
        self._job = job
        self._limits = limits
        self._waiting = waiting
        self._index = index
        self._stop = stop
        self._cache = cache
        self._hidden: dict[str, str] = {}
        self._child: Child | None = None
        self._deaths_in_a_row = 0

    def run(self) -> dict[str, Report]:
        """The reports of the targets this lane took."""
        parts = {}
        try:
            while not self._stop.is_set():
                target = self._waiting.take(self._index)
                if target is None:
                    break
                parts[target] = self._survive(target)
        finally:
            self._end_child()
        return parts

    def kill(self) -> None:
        """End what the lane is waiting for."""
        child = self._child
        if child is not None:
            child.kill()

    def _survive(self, target: str) -> Report:
        """The report on one target; a note about it, and about the file that was at fault, where the child dies."""
        notes: list[Report] = []
        reason = ""
        if self._hidden.pop(target, ""):  # it was read last when another target died, which need not be its fault
            self._end_child()
        for _ in range(_MAX_TRIES):
            if reason or self._stop.is_set() or self._deaths_in_a_row >= _MAX_DEATHS_IN_A_ROW:
                break
            at = [target]
            try:
                report = self._ask(target, at)
            except Died as death:
                self._end_child()
                self._deaths_in_a_row += 1
                how = self._overdue() if isinstance(death, Overdue) else str(death)
                reason = self._blame(target, at[-1], how, notes)
            else:
                self._deaths_in_a_row = 0
                return merged([report, *notes])
        reason = reason or f"not analysed: the analysis died {_MAX_DEATHS_IN_A_ROW} times in a row"
        return merged([_note(target, reason, num_files=1), *notes])

    def _overdue(self) -> str:
        return f"took longer than {self._limits.seconds_per_file:g} s"

    def _blame(self, target: str, at: str, death: str, notes: list[Report]) -> str:
        """The reason to give the target up; empty to try again without the file it was reading."""
        reason = f"the analysis {death} at this file"
        if at != target and (at in self._hidden or len(notes) + 1 >= _MAX_TRIES):
            return reason
        self._hidden[at] = reason
        if at == target:
            return reason
        notes.append(_note(at, reason))
        return ""

    def _ask(self, target: str, at: list[str]) -> Report:
        child = self._child or self._start()
        self._child = child
        child.send({"target": target})
        allowance = child.allowance(self._limits.seconds_per_file)
        while True:
            document = child.receive(allowance)
            if "report" in document:
                report = report_from_json(document["report"])
                self._remember(target, document, report)
                return report
            at.append(document["at"])

    def _remember(self, target: str, document: Mapping[str, Any], report: Report) -> None:
        """Keep a report for the next run, unless files were hidden from it or a bug of ours shortened it."""
        is_kept = self._cache is not None and not self._hidden and is_whole(report)
        if self._cache is not None and is_kept and document["made_from"] is not None:
            self._cache.put(target, document["made_from"], document["report"])

    def _start(self) -> Child:
        job, options = self._job, self._job.options
        child = Child(_COMMAND)
        try:
            child.send(
                {
                    "root": str(job.root),
                    "paths": list(job.paths),
                    "texts": {path: text.decode("latin-1") for path, text in job.texts.items()},
                    "hidden": list(self._hidden),
                    "options": {
                        "select": sorted(options.select),
                        "ignore": sorted(options.ignore),
                        "min_confidence": options.min_confidence.value,
                    },
                    "report_on": list(job.targets),
                    "is_kept": self._cache is not None,
                    "memory_bytes": self._limits.memory_bytes,
                }
            )
            child.receive(child.allowance(_START_SECONDS))
        except Died as death:
            child.close()
            raise PreflightError(f"the analysis cannot be started: it {death}") from None
        except BaseException:
            child.close()
            raise
        return child

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def _note(path: str, reason: str, num_files: int = 0) -> Report:
    return Report(num_files=num_files, skipped=(Skipped(path, reason),), findings=())
