"""What a change does to one launch config, as a value that `bot` carries around. Light: no reader is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analyzer.findings import Skipped
from estimator.report import Estimate, Verdict
from estimator.sourced import Sourced


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """One launch config that a change touches: its estimate before and after, and the changed lines that moved it.

    `head` is the least favourable reading of the command; `readings` are all of them. `verdict` is what policy goes by:
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

    @property
    def verdict(self) -> Verdict:
        """``exceeds`` only if all readings do; ``borderline`` if some do; else the least favourable."""
        readings = self.readings or ((self.head,) if self.head else ())
        if not readings:
            return "unknown"
        answers = [answer.verdict for reading in readings for answer in reading.targets] or ["unknown"]
        answers += [reading.verdict for reading in readings if not reading.targets]
        if all(answer == "exceeds" for answer in answers):
            return "exceeds"
        if "exceeds" in answers or "borderline" in answers:
            return "borderline"
        return "unknown" if "unknown" in answers else "fits"


class Impacts(tuple[Impact, ...]):
    """The affected launch configs, and in `notes` what could not be read, with the reason."""

    notes: tuple[Skipped, ...] = ()
