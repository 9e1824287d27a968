"""The door of the estimator: the only module that `bot` imports.

Signatures are the contract between the rooms; bodies live in the modules named beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyzer.api import Files
from analyzer.findings import Finding
from estimator.report import Estimate, Interval, Verdict
from estimator.runconfig import RunConfig

__all__ = ["Estimate", "Impact", "Interval", "RunConfig", "Verdict", "affected", "estimate_words", "impact_finding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """One launch config that a change touches: its estimate before and after, and the changed lines that moved it."""

    path: str
    line: int
    command: tuple[str, ...]
    base: Estimate | None
    head: Estimate | None
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


def estimate_words(words: Sequence[str], base: Mapping[str, Any] | None = None) -> Estimate:
    """The words of ``preflight estimate`` / ``/preflight estimate`` (GPU names and options) as an Estimate."""
    raise NotImplementedError
