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

__all__ = [
    "Estimate",
    "Impact",
    "Interval",
    "RunConfig",
    "Verdict",
    "affected",
    "estimate",
    "estimate_words",
    "gpu_rows",
    "impact_finding",
    "instance_rows",
    "model_rows",
]


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


def estimate(run: RunConfig) -> Estimate:
    """Peak memory of one run, moment by moment, on every target it may mean, with what would make it fit.

    Raises `InputError` naming the field or the GPU that no run can have.
    """
    from estimator.estimation import estimate as compute

    return compute(run)


def estimate_words(words: Sequence[str], base: Mapping[str, Any] | None = None) -> Estimate:
    """The words of ``preflight estimate`` / ``/preflight estimate`` (GPU names and options) as an Estimate.

    `base` is a run-config document that the words override. Raises `InputError` naming the word and the nearest ones.
    """
    from estimator.options import parse_words

    return estimate(parse_words(words, base))


def gpu_rows(search: str = "") -> list[dict[str, Any]]:
    """Cards for listing; memory in GiB."""
    from estimator.catalogue import gpu_rows as find

    return find(search)


def instance_rows(search: str = "") -> list[dict[str, Any]]:
    """Instance types for listing; memory in GiB per GPU, price in USD per hour."""
    from estimator.catalogue import instance_rows as find

    return find(search)


def model_rows(search: str = "") -> list[dict[str, Any]]:
    """Models for listing."""
    from estimator.catalogue import model_rows as find

    return find(search)
