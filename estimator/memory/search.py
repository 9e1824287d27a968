"""Over the plausible readings of a run: how far they reach, and the cheapest of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Any

from estimator.memory.choice import Choices
from estimator.memory.setup import Setup

Size = Callable[[Setup], int]
_MAX_PASSES = 4


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of the plausible readings in bytes, and how far they reach to each side as natural logarithms."""

    middle: float
    down: float
    up: float


def spread(start: Setup, found: Choices, size: Size) -> Spread:
    """How far the undecided words move the size, one word at a time.

    Nobody's ignorance of one word says anything about another, so they do not all sit at their worst at once: their
    effects are factors, and the logarithms add as independent errors do, by squares.
    """
    base, values = size(start), {name: getattr(start, name) for name in Setup.__dataclass_fields__}
    shift = down = up = 0.0
    for name, choice in found.items():
        others = [value for value in choice.probable if value != values[name]]
        effects = [log(size(Setup(**{**values, name: value})) / base) for value in others]
        less, more = max(0.0, -min(effects, default=0.0)), max(0.0, *effects, 0.0)
        if choice.is_even:
            shift += (more - less) / 2
            less = more = (more + less) / 2
        down, up = down + less**2, up + more**2
    return Spread(base * exp(shift), sqrt(down), sqrt(up))


def cheapest(start: Setup, found: Choices, size: Size) -> Setup:
    """The reading with the least bytes: one word after the other until nothing improves.

    Words can hide each other (offload hides what sharding saves), so it is also searched from the reading in which
    every open word is at its cheapest.
    """
    all_cheap = {name: item.cheapest[-1] for name, item in found.items() if item.cheapest}
    return min((_climb(one, found, size) for one in (start, replace(start, **all_cheap))), key=size)


def _climb(start: Setup, found: Choices, size: Size) -> Setup:
    best, best_size = start, size(start)
    values = {name: getattr(start, name) for name in Setup.__dataclass_fields__}
    alternatives = list(_alternatives(found))
    for _ in range(_MAX_PASSES):
        before = best
        for name, value in alternatives:
            if values[name] == value:
                continue
            candidate = Setup(**{**values, name: value})  # dataclasses.replace takes three times as long
            candidate_size = size(candidate)
            if candidate_size < best_size:
                best, best_size, values[name] = candidate, candidate_size, value
        if best is before:
            break
    return best


def _alternatives(found: Choices) -> Iterator[tuple[str, Any]]:
    for name, choice in found.items():
        for value in (*choice.probable, *choice.cheapest):
            yield name, value
