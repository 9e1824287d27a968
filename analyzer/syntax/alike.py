"""Whether two IR trees say the same, numbers included. IR nodes compare by identity, so `==` does not tell."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, cast

from analyzer.syntax import ir


def alike(one: ir.Unit, other: ir.Unit) -> bool:
    """Whether two files have the same IR, node by node."""
    return difference(one, other) is None


def difference(one: object, other: object) -> tuple[object, object] | None:
    """The first two parts that differ."""
    work: list[tuple[object, object]] = [(one, other)]
    while work:
        left, right = work.pop()
        if type(left) is not type(right):
            return left, right
        if isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return left, right
            work.extend(zip(left, right, strict=True))
        elif is_dataclass(left):
            work.extend((getattr(left, name), getattr(right, name)) for name in _names(cast(Any, type(left))))
        elif left != right and not (left != left and right != right):  # NaN is alike
            return left, right
    return None


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.compare)
