"""Interval against capacity. Only a floor above what the card has says ``exceeds``; everything unsure says so."""

from __future__ import annotations

from collections.abc import Collection

from estimator.report import Interval, Verdict


def verdict_for(peak: Interval | None, usable_bytes: int | None, roomy_bytes: int = 0) -> Verdict:
    """fits: even the high end; exceeds: even the floor; borderline: between; unknown: no number or no target.

    `roomy_bytes` must fit too: the high end with what nobody wrote taken generously.
    """
    if peak is None or usable_bytes is None:
        return "unknown"
    if peak.floor > usable_bytes:
        return "exceeds"
    return "fits" if max(peak.high, roomy_bytes) <= usable_bytes else "borderline"


def is_hardly_enough(low: float, usable: float | None) -> bool:
    """Whether a card that the floor leaves open is most likely too small: even the low end is above what it has. Only a
    floor may block, but nobody should hope. Both in one unit."""
    return usable is not None and low > usable


def overall(verdicts: Collection[Verdict]) -> Verdict:
    """One verdict for several readings, of a card or of a launch, of which nobody knows the right one.

    ``exceeds`` only if every one exceeds; ``borderline`` if some do; else the least favourable.
    """
    if verdicts and all(verdict == "exceeds" for verdict in verdicts):
        return "exceeds"
    if "exceeds" in verdicts or "borderline" in verdicts:
        return "borderline"
    return "fits" if verdicts and "unknown" not in verdicts else "unknown"


def least_favourable(verdicts: Collection[Verdict]) -> Verdict:
    """The worst of what the cards give that a run may mean: what `Estimate.verdict` repeats (DESIGN section 7)."""
    rank: dict[Verdict, int] = {"fits": 0, "unknown": 1, "borderline": 2, "exceeds": 3}
    return max(verdicts, key=lambda verdict: rank[verdict], default="unknown")
