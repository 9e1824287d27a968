"""The door of the estimator: the only module that `bot` imports.

Signatures are the contract between the rooms; bodies live in the modules named beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from analyzer.api import Files
from analyzer.findings import Finding

Verdict = Literal["fits", "exceeds", "borderline", "unknown"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Bytes per device. ``floor <= low <= point <= high``; only `floor` may block."""

    floor: int
    low: int
    point: int
    high: int


# `Estimate` (estimator/report.py) has at least: verdict, target(s), peak/allocated/reserved: Interval | None, moment,
# terms, timeline (moments with their terms, for charts), inputs, unknowns, suggestions, and to_json() -> the contract
# of DESIGN section 7. `RunConfig` (estimator/runconfig.py) has a `Sourced` field per word of the vocabulary there.


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """One launch config that a change touches: its estimate before and after, and the changed lines that moved it."""

    path: str
    line: int
    command: tuple[str, ...]
    base: Any | None  # Estimate | None
    head: Any | None  # Estimate | None
    moved: tuple[str, ...] = ()


def affected(
    base: Files, head: Files, changed: Collection[str], targets: Mapping[str, str] | None = None
) -> tuple[Impact, ...]:
    """Launch configs that `changed` touches directly or through their closure; those that did not move are left out.

    `targets` maps a partition, constraint, pool or runner label to a GPU or instance name (from the base branch's
    Preflight config).
    """
    raise NotImplementedError


def impact_finding(impact: Impact) -> Finding | None:
    """PF501 at the launch config where the head exceeds its target in every reading; else None."""
    raise NotImplementedError


def estimate_words(words: Sequence[str], base: Mapping[str, Any] | None = None) -> Any:
    """The words of ``preflight estimate`` / ``/preflight estimate`` (GPU names and options) as an Estimate."""
    raise NotImplementedError
