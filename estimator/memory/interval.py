"""From decided runs to intervals: unknown words span them, measured residuals widen them, nothing else does.

``calibration.csv`` holds, per category of run, the quantiles of measured over computed peaks on the public rows; it is
written by ``benchmarks/calibrate.py``. The floor uses none of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from estimator.memory import candidates, runtime
from estimator.memory.setup import Setup
from estimator.memory.timeline import peak, timeline
from estimator.report import Interval, Moment
from estimator.tables import number, rows

_REQUIRED = ("category", "num_rows", "low", "point", "high")


@dataclass(frozen=True, slots=True)
class Residual:
    """Measured over computed: a low quantile, the median, a high quantile."""

    low: float
    point: float
    high: float


@dataclass(frozen=True, slots=True)
class Computed:
    """Intervals of what is allocated, reserved and occupied, and the timeline of the likeliest reading."""

    allocated: Interval
    reserved: Interval
    occupied: Interval
    moments: tuple[Moment, ...]
    moment: Moment
    setup: Setup


@cache
def _residuals() -> dict[str, Residual]:
    found: dict[str, Residual] = {}
    for row in rows("calibration", _REQUIRED):
        low, point, high = (number(row, name) or 1.0 for name in ("low", "point", "high"))
        found[row["category"]] = Residual(low, point, high)
    return found


def category_of(setup: Setup) -> str:
    """The kind of run whose residuals belong together."""
    if setup.facts.is_guessed:
        return "guessed-shape" if setup.is_training else "guessed-inference"
    if not setup.is_training:
        return f"{setup.task}-quantized" if setup.quantized_bytes is not None else setup.task
    if setup.facts.image_net is not None:
        return f"image-{setup.facts.image_net.task}"
    if setup.facts.kind != "decoder":
        return setup.facts.kind
    kind = "full" if setup.method == "full" else "adapter"
    if setup.quantized_bytes is not None:
        kind = "qlora"
    return f"{kind}-sharded" if setup.is_gathered else kind


def residual_of(category: str) -> Residual:
    """The category's residual, or that of all rows together."""
    table = _residuals()
    return table.get(category) or table["all"]


def allocated_bytes(setup: Setup) -> int:
    """Bytes of live tensors at the peak, as computed."""
    return peak(timeline(setup)).num_bytes


def floor_bytes(setup: Setup) -> int:
    """Bytes that must be live at one moment."""
    return max(moment.floor_bytes for moment in timeline(setup))


@dataclass(frozen=True, slots=True)
class Raw:
    """Live bytes as computed, before any residual: least, likeliest and most plausible reading, and the floor."""

    floor: int
    low: int
    point: int
    high: int
    setup: Setup


def raw(found: candidates.Choices, architecture: str) -> Raw:
    """Evaluate the plausible readings."""
    point = candidates.typical(found, architecture)
    low = candidates.extreme(point, found, allocated_bytes, is_low=True)
    high = candidates.extreme(point, found, allocated_bytes, is_low=False)
    cheapest = candidates.extreme(point, found, floor_bytes, is_low=True, with_cheapest=True)
    sizes = [allocated_bytes(setup) for setup in (low, point, high)]
    return Raw(floor_bytes(cheapest), sizes[0], sizes[1], sizes[2], point)


def compute(found: candidates.Choices, architecture: str) -> Computed:
    """The plausible readings, and what the measured rows say about our error."""
    sizes = raw(found, architecture)
    residual, reserve = residual_of(category_of(sizes.setup)), residual_of("reserved-over-allocated")
    numbers = (sizes.low * residual.low, sizes.point * residual.point, sizes.high * residual.high)
    allocated = _interval(sizes.floor, *numbers)
    reserved = _interval(
        allocated.floor, numbers[0] * reserve.low, numbers[1] * reserve.point, numbers[2] * reserve.high
    )
    occupied = _occupied(reserved, sizes.setup)
    moments = timeline(sizes.setup)
    return Computed(allocated, reserved, occupied, moments, peak(moments), sizes.setup)


def outlook(found: candidates.Choices, architecture: str) -> tuple[int, int]:
    """The likeliest and the most plausible bytes that occupy the card: the upper half of `compute`, for searching."""
    setup = candidates.typical(found, architecture)
    most = candidates.extreme(setup, found, allocated_bytes, is_low=False)
    residual, reserve = residual_of(category_of(setup)), residual_of("reserved-over-allocated")
    point, high = allocated_bytes(setup) * residual.point, allocated_bytes(most) * residual.high
    reserved = _interval(0, 0, point * reserve.point, high * reserve.high)
    occupied = _occupied(reserved, setup)
    return occupied.point, occupied.high


def _occupied(reserved: Interval, setup: Setup) -> Interval:
    """What the allocator holds and the driver's context."""
    context = runtime.context(setup)
    return Interval(
        reserved.floor + context.floor,
        reserved.low + context.floor,
        reserved.point + context.point,
        reserved.high + 2 * context.point - context.floor,
    )


def _interval(floor: float, low: float, point: float, high: float) -> Interval:
    """Quantiles may cross where few rows were measured, and a fitted end may undercut what must be live: the floor is
    an argument, the quantiles are experience, so the floor wins."""
    low = max(min(low, point), floor)
    point = max(point, low)
    return Interval(int(floor), int(low), int(point), int(max(high, point)))
