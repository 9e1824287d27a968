"""Fit ``estimator/data/calibration.csv`` on the public measured rows, and say how it does on sources it has not seen.

    python -m benchmarks.calibrate [--check]

Per category of run, the factors are quantiles of measured over computed: 3 % for the low end of the plausible readings,
the median for the likeliest, 97 % for the high end. A source counts once however many rows it has, and every category
leans on all rows together as if they were one more source, so that few rows do not make a narrow promise. Rows of
quality C and rows measured by an unknown instrument are not used. ``--check`` fails when the committed table is stale.
"""

from __future__ import annotations

import argparse
import collections
import csv
import io
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measured import load, run_of, targetable
from estimator.estimation import targets
from estimator.memory import candidates, runtime
from estimator.memory.interval import Raw, category_of, raw
from estimator.models.choose import choose_model

TABLE = Path(__file__).parent.parent / "estimator" / "data" / "calibration.csv"
_QUANTILES = (0.03, 0.5, 0.97)
_RESERVE = (1.0, 1.04, 1.12)
"""Reserved over allocated. Published pairs run from 1.02 to 1.5; the tail belongs to the allocator's settings."""


@dataclass(frozen=True, slots=True)
class Point:
    """One row: where it is from, its category, and measured over computed for each end."""

    source: str
    category: str
    ratios: tuple[float, float, float]

    @property
    def domain(self) -> str:
        """What categories learn from each other: convolutional networks, guessed shapes, transformers."""
        return self.category.partition("-")[0] if self.is_rough else "transformer"

    @property
    def is_rough(self) -> bool:
        """Whether it says nothing about other kinds of run."""
        return self.category.startswith(("image", "guessed"))


def points(rows: Iterable[dict[str, Any]]) -> list[Point]:
    """The rows that have a number of ours and one that was measured."""
    found = []
    for row in rows:
        run = targetable(run_of(row))
        model = choose_model(run)
        if row["measured_gib"] is None or not model.readings:
            continue
        cards = targets(run)
        sizes = raw(candidates.choices(run, model.readings), cards[0].architecture if cards else "")
        found.append(Point(row["src_key"], category_of(sizes.setup), _ratios(row, sizes)))
    return found


def _ratios(row: dict[str, Any], sizes: Raw) -> tuple[float, float, float]:
    """Measured live bytes over computed ones; what was measured above them is taken off first."""
    measured = float(row["measured_gib"]) * 2**30
    if row["measured_kind"] in ("nvidia_smi", "reserved+context"):
        measured -= runtime.context(sizes.setup).point
    if row["measured_kind"] not in ("max_allocated", "max_active"):
        measured /= _RESERVE[1]
    return measured / sizes.low, measured / sizes.point, measured / sizes.high


def quantile(values: Sequence[tuple[float, float]], share: float) -> float:
    """The value below which `share` of the weight lies; `values` are (value, weight)."""
    ordered = sorted(values)
    total, passed = sum(weight for _, weight in ordered), 0.0
    for value, weight in ordered:
        passed += weight
        if passed >= share * total:
            return value
    return ordered[-1][0]


def fit(rows: Sequence[Point]) -> dict[str, tuple[int, int, float, float, float]]:
    """Category -> (rows, sources, low, point, high)."""
    table = {"all": _factors([point for point in rows if not point.is_rough], [])}
    for category in sorted({point.category for point in rows}):
        mine = [point for point in rows if point.category == category]
        kin = [point for point in rows if point.domain == mine[0].domain]
        table[category] = _factors(mine, kin)
    table["reserved-over-allocated"] = (0, 0, *_RESERVE)
    return table


def _weighted(rows: Sequence[Point], index: int, share: float) -> list[tuple[float, float]]:
    counts = collections.Counter(point.source for point in rows)
    return [(point.ratios[index], share / counts[point.source] ** 0.5) for point in rows]


def _factors(rows: Sequence[Point], prior: Sequence[Point]) -> tuple[int, int, float, float, float]:
    sources = len({point.source for point in rows})
    factors = []
    for index, share in enumerate(_QUANTILES):
        values = _weighted(rows, index, 1.0)
        own = sum(weight for _, weight in values)
        leaning = _weighted(prior, index, 1.0)
        total = sum(weight for _, weight in leaning) or 1.0
        values += [(value, weight * own / (total * (sources + 1))) for value, weight in leaning]
        factors.append(round(quantile(values, share), 4))
    return len(rows), sources, factors[0], factors[1], factors[2]


def render(table: dict[str, tuple[int, int, float, float, float]]) -> str:
    """The table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["category", "num_rows", "num_sources", "low", "point", "high"])
    writer.writerows([name, *values] for name, values in table.items())
    return text.getvalue()


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How a table fitted without a source does on that source."""

    source: str
    num_rows: int
    num_inside: int
    median_error: float
    median_width: float


def leave_one_out(rows: Sequence[Point]) -> list[HeldOut]:
    """For every source: fit on the others, look at its rows."""
    results = []
    for source in sorted({point.source for point in rows}):
        table = fit([point for point in rows if point.source != source])
        mine = [point for point in rows if point.source == source]
        results.append(_held_out(source, mine, table))
    return results


def _held_out(source: str, mine: Sequence[Point], table: dict[str, tuple[int, int, float, float, float]]) -> HeldOut:
    inside, errors, widths = 0, [], []
    for point in mine:
        _, _, low, middle, high = table.get(point.category, table["all"])
        inside += point.ratios[0] >= low and point.ratios[2] <= high
        errors.append(abs(middle / point.ratios[1] - 1))
        widths.append((high / point.ratios[2] - low / point.ratios[0]) / (middle / point.ratios[1]))
    return HeldOut(source, len(mine), inside, statistics.median(errors), statistics.median(widths))


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
