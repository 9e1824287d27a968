"""How far apart a tensor's numbers lie: whether another shape of them is a view or has to be a copy.

Strides are in numbers. None stands for a tensor that lies as it is read (contiguous).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Strides = tuple[int, ...] | None


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor that lies as it is read."""
    found: list[int] = []
    step = 1
    for size in reversed(shape):
        found.append(step)
        step *= max(size, 1)
    return tuple(reversed(found))


def of(shape: Sequence[int], strides: Strides) -> tuple[int, ...]:
    """The strides written out."""
    return contiguous(shape) if strides is None else strides


def normal(shape: Sequence[int], strides: Sequence[int]) -> Strides:
    """None where they are those of a contiguous tensor; a dimension of one lies anywhere."""
    usual = contiguous(shape)
    is_usual = all(size == 1 or a == b for size, a, b in zip(shape, strides, usual, strict=True))
    return None if is_usual else tuple(strides)


def is_dense(shape: Sequence[int], strides: Strides) -> bool:
    """Whether no number is read twice."""
    return strides is None or all(size == 1 or step for size, step in zip(shape, strides, strict=True))


def stored(shape: Sequence[int], strides: Strides) -> int:
    """How many different numbers there are: those of an expanded dimension are the same."""
    if strides is None:
        return prod(shape)
    return prod(size for size, step in zip(shape, strides, strict=True) if step)


def viewed(shape: Sequence[int], strides: Strides, wanted: Sequence[int]) -> tuple[bool, Strides]:
    """Whether the same numbers can be seen in another shape without a copy, and their strides then: dimensions are
    merged only where they lie behind each other (torch docs, ``Tensor.view``)."""
    if strides is None or 0 in shape:
        return True, None
    left, result = len(wanted) - 1, [0] * len(wanted)
    base, whole, seen = (strides[-1] if strides else 1), 1, 1
    for at in range(len(shape) - 1, -1, -1):
        whole *= shape[at]
        if at and (shape[at - 1] == 1 or strides[at - 1] == whole * base):
            continue
        while left >= 0 and (seen < whole or wanted[left] == 1):
            result[left] = seen * base
            seen *= wanted[left]
            left -= 1
        if seen != whole:
            return False, None
        if at:
            base, whole, seen = strides[at - 1], 1, 1
    return (True, normal(wanted, result)) if left < 0 else (False, None)
