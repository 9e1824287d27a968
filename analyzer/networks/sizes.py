"""How much a value holds. Python's own functions walk a container without a step of ours: what is too large, or a list
that holds another twice, sixty deep, is not handed to them."""

from __future__ import annotations

MAX_INSIDE = 1 << 14
MAX_NUMBER = 1 << 64


def is_small(*values: object) -> bool:
    """Whether the values hold few items and no absurd number, those inside counted as often as they would be walked."""
    left = MAX_INSIDE
    pending: list[object] = list(values)
    while pending:
        left -= 1
        if left < 0:
            return False
        value = pending.pop()
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            return False
        if isinstance(value, (list, tuple, set)):
            left -= len(value)
            pending += value if left >= 0 else ()
        elif isinstance(value, dict):
            left -= 2 * len(value)
            pending += [*value, *value.values()] if left >= 0 else ()
    return True
