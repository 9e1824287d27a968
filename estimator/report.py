"""The answer of an estimate, as frozen values and as the JSON contract of ``preflight estimate --format json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from estimator.units import to_gib

Verdict = Literal["fits", "exceeds", "borderline", "unknown"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Bytes per device. ``floor <= low <= point <= high``; only `floor` may block."""

    floor: int
    low: int
    point: int
    high: int

    def to_json(self) -> dict[str, float]:
        """In GiB. `floor` is rounded down: a rounding must not block."""
        floor = min(to_gib(self.floor), to_gib(self.low))
        return {"floor": floor, "low": to_gib(self.low), "point": to_gib(self.point), "high": to_gib(self.high)}


@dataclass(frozen=True, slots=True)
class Term:
    """Bytes that are live together, the formula that gives them, and where the formula is from.

    `floor_bytes` is what must be there whatever we do not know.
    """

    name: str
    num_bytes: int
    floor_bytes: int
    formula: str
    source: str

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {
            "name": self.name,
            "gib": to_gib(self.num_bytes, 3),
            "floor_gib": to_gib(self.floor_bytes, 3),
            "formula": self.formula,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class Moment:
    """A named moment of the run and the terms alive then (allocator and driver overhead not included)."""

    name: str
    terms: tuple[Term, ...]

    @property
    def num_bytes(self) -> int:
        """What is expected to be allocated."""
        return sum(term.num_bytes for term in self.terms)

    @property
    def floor_bytes(self) -> int:
        """What must be allocated."""
        return sum(term.floor_bytes for term in self.terms)

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {
            "name": self.name,
            "gib": to_gib(self.num_bytes, 3),
            "terms": [term.to_json() for term in self.terms],
        }


@dataclass(frozen=True, slots=True)
class TargetAnswer:
    """One GPU or instance, and whether the run fits it. `usable_bytes` None: the size of the card is not known."""

    name: str
    count: int
    usable_bytes: int | None
    verdict: Verdict

    @property
    def usable_gib(self) -> float | None:
        """Rounded once, so that every text shows the same digits."""
        return None if self.usable_bytes is None else to_gib(self.usable_bytes)

    def to_json(self, with_verdict: bool = True) -> dict[str, Any]:
        """The contract's form."""
        answer: dict[str, Any] = {"name": self.name, "count": self.count, "usable_gib": self.usable_gib}
        return {**answer, "verdict": self.verdict} if with_verdict else answer


@dataclass(frozen=True, slots=True)
class InputLine:
    """One known input and where it came from."""

    name: str
    value: Any
    origin: str

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {"name": self.name, "value": self.value, "origin": self.origin}


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """Which model the numbers are for. `params` None: nothing is known about it."""

    id: str | None
    params: int | None
    source: str

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {"id": self.id, "params": self.params, "source": self.source}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that lowers the peak, what the peak is afterwards, and what it costs.

    `saved` are the bytes by which it lowers what is expected: none where the run moves to another card. `edit` is the
    change as fields of a run config; null takes a field back.
    """

    change: str
    peak: Interval
    verdict: Verdict
    trade_off: str
    saved: int
    edit: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        peak = self.peak.to_json()
        edit = {name: list(value) if isinstance(value, tuple) else value for name, value in self.edit.items()}
        return {
            "change": self.change,
            "peak_gib": peak,
            "saves_gib": to_gib(self.saved),
            "verdict": self.verdict,
            "trade_off": self.trade_off,
            "edit": edit,
        }


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest value of a word with which the run fits every target. None: not even one. `ends` says what ends there
    where memory does not: the positions of the model, or the search."""

    name: str
    value: int | None
    ends: Literal["model", "search"] | None = None

    @property
    def is_all(self) -> bool:
        """Whether more may fit."""
        return self.ends is not None

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {"name": self.name, "value": self.value, "is_all": self.is_all, "ends": self.ends}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Everything one estimate has to say. Intervals are None where no number can be given, and `reasons` says why.

    `peak` is what occupies the card (allocator reservation and CUDA context); `reserved` the allocator's reservation;
    `allocated` the live tensors. `terms` are those of the moment of the peak and what is expected beyond them: they add
    up to what is expected.
    """

    verdict: Verdict
    model: ModelAnswer
    targets: tuple[TargetAnswer, ...]
    peak: Interval | None = None
    allocated: Interval | None = None
    reserved: Interval | None = None
    moment: str | None = None
    terms: tuple[Term, ...] = ()
    timeline: tuple[Moment, ...] = ()
    inputs: tuple[InputLine, ...] = ()
    unknowns: tuple[str, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    largest: tuple[Largest, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def target(self) -> TargetAnswer | None:
        """The least favourable target."""
        rank = {"exceeds": 3, "borderline": 2, "unknown": 1, "fits": 0}
        return max(self.targets, key=lambda item: rank[item.verdict]) if self.targets else None

    def to_json(self) -> dict[str, Any]:
        """The contract's form (version 1)."""
        target = self.target
        return {
            "version": 1,
            "verdict": self.verdict,
            "model": self.model.to_json(),
            "target": target.to_json(with_verdict=False) if target else None,
            "targets": [item.to_json() for item in self.targets],
            "peak_gib": self.peak.to_json() if self.peak else None,
            "allocated_gib": self.allocated.to_json() if self.allocated else None,
            "reserved_gib": self.reserved.to_json() if self.reserved else None,
            "moment": self.moment,
            "terms": [term.to_json() for term in self.terms],
            "timeline": [moment.to_json() for moment in self.timeline],
            "inputs": [line.to_json() for line in self.inputs],
            "unknowns": list(self.unknowns),
            "suggestions": [item.to_json() for item in self.suggestions],
            "largest": [item.to_json() for item in self.largest],
            "reasons": list(self.reasons),
        }
