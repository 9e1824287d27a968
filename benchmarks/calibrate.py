"""Fit ``estimator/data/calibration.csv`` on the public measured rows, and say how it does on sources it has not seen.

    python -m benchmarks.calibrate [--check]

Per category of run: the median of measured over computed, and on either side of it how far our own error reaches.
That error is what the unknown words of a row do not explain, so a run in which everything is known gets a narrow
interval, and one in which little is known the width of what is unknown. A source of many rows counts more than one of
few, by the square root. The median leans on 1, as if five more rows had measured what was computed: a factor is a gap
in the model and has to be shown by rows, not by a few of them. The error leans on that of the category's kin around
their own medians, as if they were five rows more, so that few rows do not make a narrow promise. Rows of quality C and
rows measured by an unknown instrument are not used. ``--check`` fails when the committed table is stale.
"""

from __future__ import annotations

import argparse
import collections
import csv
import io
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.measured import load, run_of, targetable
from estimator.calibration.compare import traced_reserves
from estimator.estimation import runtime_key, targets
from estimator.memory import candidates, runtime
from estimator.memory.interval import Raw, category_of, is_traced, raw, state_share
from estimator.memory.setup import Setup
from estimator.models.choose import choose_model

TABLE = Path(__file__).parent.parent / "estimator" / "data" / "calibration.csv"
_MISSED = 0.05
"""Share of the weight that may be below the low end, and above the high end."""
_LEAST = 0.07
"""No promise is closer than the doubt about what a published "GB" is (1e9 or 2**30 bytes), as a logarithm."""
_ALONE = 0.12
"""Nor, where one source speaks for a category, closer than medians of sources lie within the other categories: they
scatter by 0.07 around their category's."""
_PRIOR = 5
"""Rows of its own that a category would need against what was computed, and that its kin's errors count as."""
_TIE = 1e-9
"""Weights that add up to a share are that share, whatever a Python's ``sum`` rounds to: 3.12 began to compensate."""
_RESERVE = (1.0, 1.04, 1.2)
"""Reserved over allocated where nothing was traced. Published pairs run from 1.02 to 1.5; the tail belongs to the
allocator's settings."""

Factors = tuple[int, int, float, float, float]
"""Rows, sources, and the low, middle and high factor."""


@dataclass(frozen=True, slots=True)
class Point:
    """One row: where it is from, its category, and as logarithms measured over computed and what is unknown. `group` is
    the category that the collection has it under."""

    source: str
    category: str
    error: float
    down: float
    up: float
    group: str = ""

    @property
    def domain(self) -> str:
        """What categories learn from each other: convolutional networks, guessed shapes, transformers."""
        return self.category.partition("-")[0] if self.is_rough else "transformer"

    @property
    def is_rough(self) -> bool:
        """Whether it says nothing about other kinds of run."""
        return self.category.startswith(("image", "guessed"))

    def beyond(self, middle: float, *, is_low: bool) -> float:
        """The error of ours that its unknown words do not explain, on one side."""
        error, unknown = (middle - self.error, self.down) if is_low else (self.error - middle, self.up)
        return math.sqrt(max(error, 0.0) ** 2 - unknown**2) if error > unknown else 0.0

    def is_inside(self, factors: Factors) -> bool:
        """Whether an interval with these factors holds what was measured."""
        _, _, low, point, high = factors
        down, up = math.hypot(self.down, math.log(point / low)), math.hypot(self.up, math.log(high / point))
        return -down - _ROUNDING <= self.error - math.log(point) <= up + _ROUNDING

    def width(self, factors: Factors) -> float:
        """High less low over point."""
        _, _, low, point, high = factors
        down, up = math.hypot(self.down, math.log(point / low)), math.hypot(self.up, math.log(high / point))
        return math.exp(up) - math.exp(-down)


_ROUNDING = 1e-4  # factors are written with four digits


def points(rows: Iterable[dict[str, Any]]) -> list[Point]:
    """The rows that have a number of ours and one that was measured."""
    found = []
    for row in rows:
        run = targetable(run_of(row))
        model = choose_model(run)
        if row["measured_gib"] is None or not model.readings:
            continue
        cards = targets(run)
        sizes = raw(candidates.choices(run, model.readings), runtime_key(cards))
        error = math.log(_live_bytes(row, sizes) / sizes.spread.middle)
        found.append(
            Point(row["src_key"], category_of(sizes.setup), error, sizes.spread.down, sizes.spread.up, row["category"])
        )
    return found


def _live_bytes(row: dict[str, Any], sizes: Raw) -> float:
    """What was measured, less what was measured above live tensors."""
    measured = float(row["measured_gib"]) * 2**30
    if row["measured_kind"] in ("nvidia_smi", "reserved+context"):
        measured -= runtime.context(sizes.setup).point
    if row["measured_kind"] not in ("max_allocated", "max_active"):
        logs = [math.log(_reserve(setup)) for setup in sizes.likely]
        measured /= math.exp(math.fsum(logs) / len(logs))
    return measured


def _reserve(setup: Setup) -> float:
    if not is_traced(setup):
        return _RESERVE[1]
    table = reserves()
    if setup.method != "full":
        return table["reserved-adapter"][3]
    return table["reserved-full"][3] + state_share(setup) * table["reserved-per-state"][3]


def quantile(values: Sequence[tuple[float, float]], share: float) -> float:
    """The value below which `share` of the weight lies; `values` are (value, weight)."""
    ordered = sorted(values)
    total, passed = math.fsum(weight for _, weight in ordered), 0.0
    for value, weight in ordered:
        passed += weight
        if passed >= share * total * (1 - _TIE):
            return value
    return ordered[-1][0]


def fit(rows: Sequence[Point]) -> dict[str, Factors]:
    """Category -> factors."""
    groups = collections.defaultdict(list)
    for point in rows:
        groups[point.category].append(point)
    middles = {category: _middle(mine) for category, mine in groups.items()}
    exact = [point for point in rows if not point.category.startswith("guessed")]
    table = {"all": _factors(exact, 0.0, [], middles)}  # the gaps of other kinds say nothing about one without rows
    for category, mine in sorted(groups.items()):
        is_guess = category.startswith("guessed")  # may be any of the others
        others = [point for point in rows if point.category != category]
        kin = [point for point in others if is_guess or point.domain == mine[0].domain]
        table[category] = _factors(mine, middles[category], kin, middles)
    table["reserved-over-allocated"] = (0, 0, *_RESERVE)
    return {**table, **reserves()}


_STATEFUL = 0.3
"""Share of the optimizer's state in the peak from which on a trace tells what a hole of it costs."""


@lru_cache(maxsize=1)
def reserves() -> dict[str, Factors]:
    """Reserved over live bytes of the traces (``python -m estimator.calibration reserve``): of adapters, of full
    training as if it had no optimizer state, and what is to be added per share that the state has in the peak."""
    traces = traced_reserves()
    full = [one for one in traces if one.variant.method == "full"]
    base = _spread([one.ratio for one in full if one.state_share < _STATEFUL])
    slopes = [max((one.ratio - base[1]) / one.state_share, 0.0) for one in full if one.state_share >= _STATEFUL]
    adapter = _spread([one.ratio for one in traces if one.variant.method == "lora"])
    found = {"reserved-adapter": adapter, "reserved-full": base, "reserved-per-state": _spread(slopes)}
    rounded = {name: (round(low, 4), round(point, 4), round(high, 4)) for name, (low, point, high) in found.items()}
    return {name: (len(traces), 0, *ends) for name, ends in rounded.items()}


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = (quantile([(value, 1.0) for value in values], share) for share in (_MISSED, 0.5, 1 - _MISSED))
    return low, middle, high


def _weights(rows: Sequence[Point]) -> list[float]:
    counts = collections.Counter(point.source for point in rows)
    return [counts[point.source] ** -0.5 for point in rows]


def _middle(rows: Sequence[Point]) -> float:
    """The median of the errors, and of as many rows without one as it takes to doubt them. A guess at a shape is wrong
    in no known direction: what other guesses got wrong says nothing about the next."""
    if all(row.category.startswith("guessed") for row in rows):
        return 0.0
    weights = _weights(rows)
    doubt = (0.0, math.fsum(weights) * _PRIOR / max(len(rows), 1))
    return quantile([*((row.error, weight) for row, weight in zip(rows, weights, strict=True)), doubt], 0.5)


def _factors(mine: Sequence[Point], middle: float, kin: Sequence[Point], middles: Mapping[str, float]) -> Factors:
    """The rows of a category around their middle, and its kin around theirs."""
    own, theirs = _weights(mine), _weights(kin)
    borrowed = max(_PRIOR, round(1 / _MISSED) - len(mine))
    lean = math.fsum(own) * borrowed / (len(mine) * math.fsum(theirs)) if kin else 0.0
    rows = [(row, middle, weight) for row, weight in zip(mine, own, strict=True)]
    rows += [(row, middles[row.category], weight * lean) for row, weight in zip(kin, theirs, strict=True)]
    low, high = (
        quantile([(row.beyond(centre, is_low=side), weight) for row, centre, weight in rows], 1 - _MISSED)
        for side in (True, False)
    )
    sources = len({point.source for point in mine})
    least = _LEAST if sources > 1 else _ALONE
    low, high = max(low, least), max(high, least)
    ends = (math.exp(middle - low), math.exp(middle), math.exp(middle + high))
    return len(mine), sources, round(ends[0], 4), round(ends[1], 4), round(ends[2], 4)


def render(table: dict[str, Factors]) -> str:
    """The table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["category", "num_rows", "num_sources", "low", "point", "high"])
    writer.writerows([name, *values] for name, values in table.items())
    return text.getvalue()


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How a table fitted without a source (or a category of rows) does on it."""

    source: str
    num_rows: int
    num_inside: int
    median_error: float
    mean_error: float
    median_width: float


def leave_one_out(
    rows: Sequence[Point], judged: Sequence[Point] = (), key: Callable[[Point], str] = lambda point: point.source
) -> list[HeldOut]:
    """For every source (or what `key` names): fit on the others, look at its rows, those of `judged` too, which nothing
    is fitted on. The last entry is of all rows together, each so judged."""
    pairs: dict[str, list[tuple[Point, Factors]]] = {}
    every = [*rows, *judged]
    for name in sorted({key(point) for point in every}):
        table = fit([point for point in rows if key(point) != name])
        pairs[name] = [(point, factors_of(table, point.category)) for point in every if key(point) == name]
    results = [_held_out(name, found) for name, found in pairs.items()]
    return [*results, _held_out("all of them", [pair for found in pairs.values() for pair in found])]


def factors_of(table: Mapping[str, Factors], category: str) -> Factors:
    """As `estimator.memory.interval.residual_of` looks them up."""
    return table.get(category) or table.get(category.partition("-")[0]) or table["all"]


def _held_out(source: str, pairs: Sequence[tuple[Point, Factors]]) -> HeldOut:
    errors = [abs(math.exp(math.log(one[3]) - point.error) - 1) for point, one in pairs]
    inside = sum(point.is_inside(one) for point, one in pairs)
    widths = [point.width(one) for point, one in pairs]
    median, mean = statistics.median(errors), statistics.mean(errors)
    return HeldOut(source, len(pairs), inside, median, mean, statistics.median(widths))


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the table; print the leave-one-source-out result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(argv)
    rows = [row for row in load(qualities="AB") if row["measured_kind"] != "unknown"]
    text = render(fit(points(rows)))
    if args.check:
        is_fresh = TABLE.read_text(encoding="utf-8") == text
        print("fresh" if is_fresh else "stale: run python -m benchmarks.calibrate", file=sys.stderr)
        return 0 if is_fresh else 1
    TABLE.write_text(text, encoding="utf-8")
    print(text)
    for item in leave_one_out(points(rows)):
        share = f"{item.num_inside}/{item.num_rows} inside"
        print(f"without {item.source:18} {share:14} error {item.median_error:.0%} width {item.median_width:.0%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
