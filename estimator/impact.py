"""What a change does to one launch config, as a value that `bot` carries around. Light: no reader is imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyzer.findings import Skipped
from estimator.report import Estimate, Verdict
from estimator.sourced import Sourced
from estimator.verdict import overall


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """One launch config that a change touches: its estimate before and after, and the changed lines that moved it.

    `head` shows the least favourable reading of the command, but its verdict (as `verdict`) is that of all `readings`:
    ``exceeds`` only where every reading exceeds on every target it may mean.
    """

    path: str
    line: int
    command: tuple[str, ...]
    base: Estimate | None
    head: Estimate | None
    moved: tuple[str, ...] = ()
    readings: tuple[Estimate, ...] = ()
    origins: Mapping[str, Sourced[Any]] | None = None
    decided_at: int = 0
    """The line of the launch file that moved it; 0 where another file did, or the launch is new."""
    smoke_test: str = ""
    """The command of a short run that shows whether a borderline launch fits."""
    run: Mapping[str, Any] | None = None
    """The shown reading as a ``--run-config`` document with the origin of every value: what a what-if starts from."""

    @property
    def verdict(self) -> Verdict:
        """``exceeds`` only if all readings do; ``borderline`` if some do; else the least favourable."""
        return verdict_of(self.readings or ((self.head,) if self.head else ()))


class Impacts(tuple[Impact, ...]):
    """The affected launch configs, and in `notes` what could not be read, with the reason."""

    notes: tuple[Skipped, ...] = ()


def verdict_of(readings: Sequence[Estimate]) -> Verdict:
    """``exceeds`` only if every reading exceeds every target it may mean; ``borderline`` if some do."""
    answers = [answer.verdict for reading in readings for answer in reading.targets]
    answers += [reading.verdict for reading in readings if not reading.targets]
    return overall(answers)
