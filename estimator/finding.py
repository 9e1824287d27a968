"""PF501: a launch that cannot fit its GPU, as a finding at its command. The body of `estimator.api.impact_finding`."""

from __future__ import annotations

from analyzer.findings import Confidence, Evidence, Finding, Position, Severity, Span
from estimator.impact import Impact
from estimator.report import Estimate, Interval
from estimator.units import to_gib

RULE, NAME = "PF501", "memory-exceeds-target"
_INPUTS = (
    "model",
    "method",
    "micro_batch",
    "seq_len",
    "precision",
    "optimizer",
    "sharding",
    "grad_checkpointing",
    "gpu",
)


def impact_finding(impact: Impact) -> Finding | None:
    """The finding, where every reading exceeds every target it may mean; else None. Nothing in the head silences it."""
    answer = impact.head
    if impact.verdict != "exceeds" or answer is None or answer.peak is None:
        return None
    place = Position(impact.decided_at or impact.line, 0)
    return Finding(
        rule=RULE,
        name=NAME,
        span=Span(impact.path, place, place),
        severity=Severity.ERROR,
        confidence=Confidence.CERTAIN,
        message=_message(impact, answer, answer.peak),
        evidence=_evidence(impact),
    )


def _message(impact: Impact, answer: Estimate, peak: Interval) -> str:
    parts = [f"This job cannot fit: it needs at least {_gib(peak.floor)} per GPU on {_targets(answer)}"]
    parts.append(f"; expected {_gib(peak.low)} to {_gib(peak.high)}")
    if answer.moment:
        parts.append(f", highest at {answer.moment}")
    parts.append(".")
    before = impact.base.peak if impact.base else None
    if before is not None:
        parts.append(f" Before this change: {_gib(before.low)} to {_gib(before.high)}.")
    if impact.moved:
        parts.append(f" What moved it: {'; '.join(impact.moved)}.")
    fitting = next((item for item in answer.suggestions if item.verdict == "fits"), None)
    if fitting is not None:
        to = f"{_gib(fitting.peak.low)} to {_gib(fitting.peak.high)}"
        parts.append(f" A change that fits: {fitting.change} ({to}; {fitting.trade_off}).")
    return "".join(parts)


def _targets(answer: Estimate) -> str:
    shown = [
        f"{item.name} ({_gib(item.usable_bytes)} usable)" if item.usable_bytes else item.name for item in answer.targets
    ]
    return " and on ".join(shown)


def _gib(num_bytes: int) -> str:
    return f"{to_gib(num_bytes):.1f} GiB"


def _evidence(impact: Impact) -> tuple[Evidence, ...]:
    """The command, and every input that has a place in a file."""
    steps = [Evidence(impact.path, impact.line, 0, f"starts {' '.join(impact.command)[:200]}")]
    for name in _INPUTS:
        sourced = (impact.origins or {}).get(name)
        if sourced is not None and sourced.is_known and sourced.origin.path and sourced.origin.line:
            value = sourced.value
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            rest = [f"overrides {other.origin}" for other in sourced.overrides]
            note = ", ".join([f"{name} is {shown} ({sourced.origin.text})", *rest])
            steps.append(Evidence(sourced.origin.path, sourced.origin.line, 0, note))
    return tuple(steps)
