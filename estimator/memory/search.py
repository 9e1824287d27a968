"""Over the plausible readings of a run: how far they reach, and the cheapest of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, fsum, log, prod, sqrt
from typing import Any

from estimator.memory.choice import Choices
from estimator.memory.setup import Setup

Size = Callable[[Setup], int]
Moments = Callable[[Setup], tuple[int, ...]]
"""The bytes of every moment, in order; of the setups of one run there are as many."""
_MAX_PASSES = 4
_MAX_COMBINED = 64
_MOVES = 1e-3
"""Logarithm of what moves a peak."""
_SAYABLE = frozenset({"has_foreach_step", "attention", "precision", "sp", "loads_whole", "lora_targets", "seq_len"})
"""Words that an option says; the others are habits of libraries and frameworks."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of the plausible readings in bytes, and how far they reach to each side as natural logarithms.

    `mixed` are the words whose values are about as likely as each other and move the peak, and `least` and `most` the
    peaks of their combinations.
    """

    middle: float
    down: float
    up: float
    mixed: tuple[str, ...]
    least: int
    most: int


def likely(start: Setup, found: Choices) -> tuple[Setup, ...]:
    """Of the words that an option can say, every combination of the values that are about as likely as each other; the
    rest at its likeliest."""
    return tuple(setup for _, setup in _combined(start, found))


def _combined(start: Setup, found: Choices) -> list[tuple[tuple[Any, ...], Setup]]:
    even = _even(found, is_sayable=True)
    values, names = _values(start), [name for name, _ in even]
    return [
        (chosen, Setup(**{**values, **dict(zip(names, chosen, strict=True))}))
        for chosen in product(*(options for _, options in even))
    ]


def _even(found: Choices, *, is_sayable: bool) -> list[tuple[str, tuple[Any, ...]]]:
    """The words without a likeliest value; the first of them, where there are too many to combine."""
    kept: list[tuple[str, tuple[Any, ...]]] = []
    for name, choice in found.items():
        so_far = prod(len(options) for _, options in kept)
        if choice.is_even and (name in _SAYABLE) == is_sayable and len(choice.probable) * so_far <= _MAX_COMBINED:
            kept.append((name, choice.probable))
    return kept


def _values(setup: Setup) -> dict[str, Any]:
    return {name: getattr(setup, name) for name in Setup.__dataclass_fields__}


def spread(start: Setup, found: Choices, moments: Moments) -> Spread:
    """The middle, and how far the undecided words move the peak.

    Where no value of a word is likelier than another, the middle is the mean over all of them, in every combination: so
    a run that leaves such a word out lies between the runs that say it, however words hide each other. (Lists of all
    parameters in the optimizer's step hide what activations need, and the reverse.) Words that no option says move each
    moment by what they move alone, which spares most of the combinations.

    Nobody's ignorance of one word says anything about another, so they do not all sit at their worst at once: their
    effects are factors, and the logarithms add as independent errors do, by squares. What a word may give at most is
    not laid on top of a middle that other words have raised: a peak is the largest moment, not their sum.
    """
    sayable, inner = _even(found, is_sayable=True), _even(found, is_sayable=False)
    every = [
        (chosen + rest, log(peak))
        for chosen, setup in _combined(start, found)
        for rest, peak in _peaks(setup, inner, moments)
    ]
    middle = _mean([one for _, one in every])
    down = up = 0.0
    mixed = []
    for index, (name, options) in enumerate([*sayable, *inner]):
        means = [_mean([one for chosen, one in every if chosen[index] == option]) for option in options]
        down, up = down + max(middle - min(means), 0.0) ** 2, up + max(max(means) - middle, 0.0) ** 2
        if max(means) - min(means) > _MOVES:
            mixed.append(name)
    base, values, done = log(max(moments(start))), _values(start), {name for name, _ in [*sayable, *inner]}
    for name, choice in found.items():
        if name in done:
            continue
        others = [value for value in choice.probable if value != values[name]]
        effects = [log(max(moments(Setup(**{**values, name: value})))) - base for value in others]
        above = min(max(0.0, *effects, 0.0), max(0.0, base + max(effects, default=0.0) - middle))
        down, up = down + max(0.0, -min(effects, default=0.0)) ** 2, up + above**2
    peaks = [round(exp(one)) for _, one in every]
    return Spread(exp(middle), sqrt(down), sqrt(up), tuple(mixed), min(peaks), max(peaks))


def _peaks(
    setup: Setup, even: Sequence[tuple[str, tuple[Any, ...]]], moments: Moments
) -> Iterator[tuple[tuple[Any, ...], int]]:
    """The peak for every combination of values, from what each of them alone adds to each moment."""
    base, values = moments(setup), _values(setup)
    moved = [
        {
            option: [one - zero for one, zero in zip(moments(Setup(**{**values, name: option})), base, strict=True)]
            for option in options
            if option != values[name]
        }
        for name, options in even
    ]
    for chosen in product(*(options for _, options in even)):
        added = [by_option[option] for by_option, option in zip(moved, chosen, strict=True) if option in by_option]
        yield chosen, max(map(sum, zip(base, *added, strict=True)))


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


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
