"""Whether two values are the same count: the number of epochs that a loop runs and the one a scheduler was given."""

from __future__ import annotations

from analyzer.engine.trace import Gap
from analyzer.engine.values import Const, Method, Scalar, Unknown, Value


def same_count(one: Value | None, other: Value | None) -> list[Gap] | None:
    """None: not known to be. Else the gaps: two equal numbers written apart agree by convention only."""
    if one is None or other is None:
        return None
    if isinstance(one, Const) and isinstance(other, Const):
        if one.value != other.value or isinstance(one.value, str) or one.value in (0, 1, None):
            return None
        return [] if _origin(one) == _origin(other) else [Gap.CONVENTION]
    return [] if _same(one, other) else None


def _same(one: Value, other: Value) -> bool:
    if isinstance(one, Method) and isinstance(other, Method):
        return one.name == other.name and (one.receiver == other.receiver) and _same_receiver(one, other)
    if isinstance(one, Unknown) and isinstance(other, Unknown):
        return one.reason == other.reason and _origin(one) == _origin(other)
    if isinstance(one, Scalar) and isinstance(other, Scalar):
        return one.kind == other.kind == "option" and _origin(one) == _origin(other)
    return False


def _same_receiver(one: Method, other: Method) -> bool:
    """Receivers that are equal but unknown are the same only if they come from one place."""
    left, right = one.receiver, other.receiver
    return _same(left, right) if isinstance(left, (Unknown, Method)) else True


def _origin(value: Value) -> object:
    return value.trace.site if value.trace is not None else value
