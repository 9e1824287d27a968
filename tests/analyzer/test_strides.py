"""Views and copies, against torch's rule (``Tensor.view``) by counting where each number lies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from math import prod

import pytest

from analyzer.networks import strides


def places(shape: Sequence[int], steps: Sequence[int]) -> list[int]:
    """Where the numbers lie, in the order they are read."""
    return [sum(i * step for i, step in zip(index, steps, strict=True)) for index in product(*map(range, shape))]


SHAPES = [(2, 3, 2), (2, 1, 6), (4, 4), (1, 3, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_view_reads_the_same_numbers_in_the_same_order(shape: tuple[int, ...]) -> None:
    seen = set()
    for order in permutations(range(len(shape))):
        sizes = tuple(shape[at] for at in order)
        steps = tuple(strides.contiguous(shape)[at] for at in order)
        lies = places(sizes, steps)
        total = prod(shape)
        divisors = [each for each in range(1, total + 1) if total % each == 0]
        for wanted in [(total,), *((each, total // each) for each in divisors)]:
            is_view, found = strides.viewed(sizes, strides.normal(sizes, steps), wanted)
            seen.add(is_view)
            if is_view:
                assert places(wanted, strides.of(wanted, found)) == lies
            else:  # no strides at all would give this order
                jumps = range(-total, total + 1)
                assert not any(places(wanted, guess) == lies for guess in product(jumps, repeat=len(wanted)))
    assert True in seen


def test_what_is_expanded_lies_there_once() -> None:
    assert strides.stored((4, 3, 5), (5, 0, 1)) == 20
    assert strides.stored((4, 3), None) == 12
    assert not strides.is_dense((4, 3), (1, 0))
    assert strides.viewed((4, 3), (1, 0), (12,)) == (False, None)
    assert strides.normal((1, 3), (99, 1)) is None
