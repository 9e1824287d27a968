"""Answers about nodes of the IR, remembered until an analysis is over: a node that is a key keeps its whole file."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_FORGETTING: list[Callable[[], Any]] = []


def remembered(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """As `lru_cache`, for a function whose arguments are, or hold, nodes."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        made = lru_cache(maxsize=maxsize)(function)
        _FORGETTING.append(made.cache_clear)
        return made  # type: ignore[return-value]

    return decorate


def forget() -> None:
    """At the end of an analysis: its nodes are not met again."""
    for each in _FORGETTING:
        each()
