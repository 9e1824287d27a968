"""Geometry of the two charts: positions in percent of the width, so that one drawing fits every window.

Pure: from the estimate's JSON contract to plain numbers. SVG takes percentages in its attributes, which a strict
content security policy allows; a ``style`` attribute it would not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_STEPS = (0.1, 0.2, 0.25, 0.5, 1, 2, 2.5)
_MAX_TICKS = 6
_ROOM = 1.06
NUM_COLOURS = 10


@dataclass(frozen=True, slots=True)
class Tick:
    """One number of the axis. `anchor` keeps the outermost inside the drawing."""

    label: str
    at: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of the axis."""

    x: str
    width: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One interval: what must be there, what is expected, the likeliest."""

    label: str
    name: str
    least: Band
    expected: Band
    point: str
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalBar:
    """Intervals against the capacity of the card."""

    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]
    capacity: str | None
    capacity_anchor: str
    height: int


@dataclass(frozen=True, slots=True)
class Segment:
    """One term of one moment."""

    name: str
    gib: float
    colour: int
    band: Band


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentRow:
    """One moment of the step."""

    name: str
    gib: float
    is_peak: bool
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The step: what is live when, against the capacity."""

    rows: tuple[MomentRow, ...]
    terms: tuple[tuple[str, int], ...]
    ticks: tuple[Tick, ...]
    capacity: str | None
    table: tuple[tuple[str, tuple[float | None, ...]], ...]


def _percent(value: float, scale: float) -> str:
    return f"{max(0.0, min(100.0, 100 * value / scale)):.2f}%"


def _band(start: float, end: float, scale: float) -> Band:
    return Band(_percent(start, scale), _percent(max(0.0, end - start), scale))


def ticks(scale: float) -> tuple[Tick, ...]:
    """Four to seven round numbers from zero."""
    power = 10.0 ** math.floor(math.log10(scale))
    step = next(power * factor for factor in _STEPS if scale / (power * factor) <= _MAX_TICKS)
    found = []
    value = 0.0
    while value <= scale:
        at = 100 * value / scale
        anchor = "start" if at < 3 else "end" if at > 95 else "middle"
        found.append(Tick(f"{value:g}", f"{at:.2f}%", anchor))
        value += step
    return tuple(found)


def interval_bar(intervals: Iterable[tuple[str, str, Mapping[str, float] | None]], usable: float | None) -> IntervalBar:
    """`intervals` are (class, label, peak) from top to bottom; those without a number are left out."""
    known = [(name, label, peak) for name, label, peak in intervals if peak]
    scale = _ROOM * max([*(peak["high"] for _, _, peak in known), usable or 0.0, 0.1])
    rows = tuple(
        Row(
            label=label,
            name=name,
            least=_band(peak["floor"], peak["low"], scale),
            expected=_band(peak["low"], peak["high"], scale),
            point=_percent(peak["point"], scale),
            y=26 + 24 * index,
        )
        for index, (name, label, peak) in enumerate(known)
    )
    return IntervalBar(
        rows=rows,
        ticks=ticks(scale),
        capacity=_percent(usable, scale) if usable is not None else None,
        capacity_anchor="end" if usable is not None and usable > 0.6 * scale else "start",
        height=26 + 24 * len(rows) + 26,
    )


def timeline(moments: Sequence[Mapping[str, Any]], usable: float | None, peak_moment: str | None) -> Timeline:
    """Terms keep their colour and their order through all moments."""
    names = list(dict.fromkeys(str(term["name"]) for moment in moments for term in moment["terms"]))
    scale = _ROOM * max([*(float(moment["gib"]) for moment in moments), usable or 0.0, 0.1])
    colours = {name: index % NUM_COLOURS for index, name in enumerate(names)}
    rows = tuple(
        MomentRow(
            name=str(moment["name"]),
            gib=float(moment["gib"]),
            is_peak=moment["name"] == peak_moment,
            segments=tuple(_segments(moment["terms"], names, colours, scale)),
        )
        for moment in moments
    )
    return Timeline(
        rows=rows,
        terms=tuple(colours.items()),
        ticks=ticks(scale),
        capacity=_percent(usable, scale) if usable is not None else None,
        table=tuple((name, tuple(_of(moment, name) for moment in moments)) for name in names),
    )


def _segments(
    terms: Sequence[Mapping[str, Any]], names: Sequence[str], colours: Mapping[str, int], scale: float
) -> Iterable[Segment]:
    start = 0.0
    for term in sorted(terms, key=lambda item: names.index(str(item["name"]))):
        size = float(term["gib"])
        yield Segment(str(term["name"]), size, colours[str(term["name"])], _band(start, start + size, scale))
        start += size


def _of(moment: Mapping[str, Any], name: str) -> float | None:
    found = [float(term["gib"]) for term in moment["terms"] if term["name"] == name]
    return sum(found) if found else None
