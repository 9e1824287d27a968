"""From decided runs to intervals: unknown words span them, measured residuals widen them, nothing else does.

``calibration.csv`` holds, per category of run, what the public rows say about our error where nothing is unknown: the
median of measured over computed, and how far below and above it one must go. It is written by
``benchmarks/calibrate.py``. That error and the undecided words are independent, so their logarithms add by squares.
The floor uses none of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import exp, fsum, hypot, log, prod

from estimator.memory import candidates, runtime, search
from estimator.memory.choice import Choice, Choices, fixed
from estimator.memory.setup import Setup
from estimator.memory.timeline import moment_sizes, peak, timeline
from estimator.memory.weights import optimizer_state
from estimator.report import Interval, Moment
from estimator.tables import number, rows

_REQUIRED = ("category", "num_rows", "low", "point", "high")


@dataclass(frozen=True, slots=True)
class Residual:
    """Measured over computed: the median, and the factors below and above which it rarely is."""

    low: float
    point: float
    high: float

    @property
    def down(self) -> float:
        """Distance from the median to the low end, as a natural logarithm."""
        return log(self.point / self.low)

    @property
    def up(self) -> float:
        """Distance from the median to the high end, as a natural logarithm."""
        return log(self.high / self.point)


@dataclass(frozen=True, slots=True)
class Computed:
    """Intervals of what is allocated, reserved and occupied, and the timeline of a likely reading.

    `middle` is what tensors hold between the readings that are as likely, `mixed` the words in which they differ, and
    `reach` the least and most of them; `category` is the kind of run whose measured error was used.
    """

    allocated: Interval
    reserved: Interval
    occupied: Interval
    moments: tuple[Moment, ...]
    moment: Moment
    setup: Setup
    middle: int
    mixed: tuple[str, ...]
    reach: tuple[int, int]
    category: str


@cache
def _residuals() -> dict[str, Residual]:
    found: dict[str, Residual] = {}
    for row in rows("calibration", _REQUIRED):
        low, point, high = (number(row, name) or 0.0 for name in ("low", "point", "high"))
        found[row["category"]] = Residual(low, point, high)
    return found


def category_of(setup: Setup) -> str:
    """The kind of run whose residuals belong together."""
    if setup.facts.is_guessed:
        return "guessed-shape" if setup.is_training else "guessed-inference"
    if not setup.is_training:
        return f"{setup.task}-quantized" if setup.quantized_bytes is not None else setup.task
    if setup.facts.image_net is not None:
        return f"image-{setup.facts.image_net.task}" + ("-half" if setup.compute_bytes == 2 else "")
    if setup.facts.kind != "decoder":
        return setup.facts.kind
    kind = "full" if setup.method == "full" else "adapter"
    if setup.quantized_bytes is not None:
        kind = "qlora"
    return f"{kind}-sharded" if setup.is_gathered else kind


def residual_of(category: str) -> Residual:
    """The category's residual; else that of the wider kind that its first word names; else that of all rows."""
    table = _residuals()
    return table.get(category) or table.get(category.partition("-")[0]) or table["all"]


def reserve_of(setup: Setup) -> Residual:
    """How much more than live tensors the allocator holds. Transformers in training were traced: the optimizer's state
    is cut from blocks that the first step's activations left, so the more of the peak it is, the more holes there are.
    Of everything else there are published pairs."""
    table = _residuals()
    if not is_traced(setup):
        return table["reserved-over-allocated"]
    if setup.method != "full":
        return table["reserved-adapter"]
    return reserve_with(state_share(setup))


def reserve_with(share: float) -> Residual:
    """The same, of a full training in whose peak the optimizer's state has that share."""
    base, slope = _residuals()["reserved-full"], _residuals()["reserved-per-state"]
    low, point, high = (getattr(base, end) + share * getattr(slope, end) for end in ("low", "point", "high"))
    return Residual(min(low, point), point, max(high, point))


def is_traced(setup: Setup) -> bool:
    """Whether ``reserved.csv`` has runs of its kind."""
    return setup.is_training and setup.facts.kind in ("decoder", "encoder", "vit", "encdec")


def state_share(setup: Setup) -> float:
    """Optimizer state over the whole peak; there is none yet where the peak is the first moment, the load."""
    load, *others = moment_sizes(setup)
    most = max(others)
    return optimizer_state(setup).num_bytes / most if most > load else 0.0


def allocated_bytes(setup: Setup) -> int:
    """Bytes of live tensors at the peak, as computed."""
    return max(moment_sizes(setup))


def floor_bytes(setup: Setup) -> int:
    """Bytes that must be live at one moment."""
    return max(moment.floor_bytes for moment in timeline(setup))


@dataclass(frozen=True, slots=True)
class Raw:
    """Live bytes as computed, before any residual: the floor, how far the plausible readings reach, and the likely ones
    with one that stands for them."""

    floor: int
    spread: search.Spread
    setup: Setup
    likely: tuple[Setup, ...]


def raw(found: Choices, architecture: str) -> Raw:
    """Evaluate the plausible readings."""
    setup = candidates.typical(found, architecture)
    cheapest = search.cheapest(setup, found, floor_bytes)
    spread, likely = search.spread(setup, found, moment_sizes), search.likely(setup, found)
    return Raw(floor_bytes(cheapest), spread, setup, likely)


def _reserve(likely: tuple[Setup, ...]) -> Residual:
    """Of readings that are about as likely, the mean: as the middle of what is live is."""
    reserves = [reserve_of(one) for one in likely]
    low, point, high = (
        exp(fsum(log(getattr(one, end)) for one in reserves) / len(reserves)) for end in ("low", "point", "high")
    )
    return Residual(low, point, high)


def scaled(spread: search.Spread, *residuals: Residual) -> tuple[float, float, float]:
    """Low, point and high of what was computed, after independent errors."""
    point = spread.middle
    for residual in residuals:
        point *= residual.point
    down = hypot(spread.down, *(residual.down for residual in residuals))
    up = hypot(spread.up, *(residual.up for residual in residuals))
    return point * exp(-down), point, point * exp(up)


def compute(found: Choices, architecture: str) -> Computed:
    """The plausible readings, and what the measured rows say about our error. Where nobody knows how large what is read
    is, that of the likeliest size, in intervals that hold those of every size that it may have."""
    each = [_compute(one, architecture) for one in _by_size(found)]
    return replace(
        each[0],
        allocated=_around([one.allocated for one in each]),
        reserved=_around([one.reserved for one in each]),
        occupied=_around([one.occupied for one in each]),
    )


_SIZES = ("micro_batch", "seq_len", "target_len", "image")


def _by_size(found: Choices) -> list[Choices]:
    """The choices with each size that is open decided, the likeliest first, then the smallest and the largest of all.
    They are no error around a likeliest one, which adds to others by squares: an answer names them, and is for each.
    Of a network of the repository its inputs, and which networks they are, count as sizes."""
    facts: Choice = found["facts"]
    readings = (facts.typical, *facts.probable) if facts.typical.local is not None else ()
    ends: list[Choices] = [{}, {}, {}]
    for name in _SIZES:
        choice = found.get(name)
        if name == "target_len" and not facts.typical.source_tokens:
            continue  # no option says it: beside a source of the run's length it is a habit
        if choice is not None and len(choice.probable) > 1 and not choice.is_even:
            ordered = sorted(choice.probable, key=_extent)
            for end, value in zip(ends, (choice.typical, ordered[0], ordered[-1]), strict=True):
                end[name] = replace(choice, typical=value, probable=(value,))
    kept = ends if ends[0] else ends[:1]
    if not readings:
        return [{**found, **end} for end in kept]
    return [{**found, **end, "facts": fixed(one)} for one in dict.fromkeys(readings) for end in kept]


def _extent(size: int | tuple[int, ...]) -> int:
    return prod(size) if isinstance(size, tuple) else size


def _around(intervals: list[Interval]) -> Interval:
    """The first, as wide as all."""
    return Interval(
        min(one.floor for one in intervals), min(one.low for one in intervals), intervals[0].point,
        max(one.high for one in intervals),
    )  # fmt: skip


def _compute(found: Choices, architecture: str) -> Computed:
    sizes = raw(found, architecture)
    category = category_of(sizes.setup)
    residual, reserve = residual_of(category), _reserve(sizes.likely)
    allocated = _interval(sizes.floor, *scaled(sizes.spread, residual))
    reserved = _interval(sizes.floor, *scaled(sizes.spread, residual, reserve))
    reserved = replace(reserved, low=max(reserved.low, allocated.low))
    occupied = _occupied(reserved, sizes.setup)
    spread = sizes.spread
    moments = timeline(_nearest(sizes))
    return Computed(
        allocated, reserved, occupied, moments, peak(moments), sizes.setup, round(spread.middle), spread.mixed,
        (spread.least, spread.most), category,
    )  # fmt: skip


def _nearest(sizes: Raw) -> Setup:
    """The largest likely reading that holds no more than the middle: what is expected beyond it is a plus."""
    below = [one for one in sizes.likely if allocated_bytes(one) <= sizes.spread.middle]
    return max(below, key=allocated_bytes) if below else min(sizes.likely, key=allocated_bytes)


def outlook(found: Choices, architecture: str) -> tuple[int, int]:
    """The likeliest and the most plausible bytes that occupy the card: the upper half of `compute`, for searching."""
    likeliest, *others = _by_size(found)
    point, high = _outlook(likeliest, architecture)
    return point, max([high, *(_outlook(one, architecture)[1] for one in others if _is_largest(one, others))])


def highest(found: Choices, architecture: str) -> int:
    """The most plausible bytes alone."""
    every = _by_size(found)
    return max(_outlook(one, architecture)[1] for one in every if _is_largest(one, every))


def _is_largest(one: Choices, every: list[Choices]) -> bool:
    """Whether no other choice has the same model and more to read."""
    return not any(
        other is not one
        and other["facts"] == one["facts"]
        and [_size(other, name) for name in _SIZES] > [_size(one, name) for name in _SIZES]
        for other in every
    )


def _size(found: Choices, name: str) -> int:
    return _extent(found[name].typical) if name in found else 0


def _outlook(found: Choices, architecture: str) -> tuple[int, int]:
    setup = candidates.typical(found, architecture)
    spread = search.spread(setup, found, moment_sizes)
    _, point, high = scaled(spread, residual_of(category_of(setup)), _reserve(search.likely(setup, found)))
    occupied = _occupied(_interval(0, 0, point, high), setup)
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
