"""APIs that a row cannot express, one file per family, behind the same lookup as the rows.

Each module of this folder may have ``FUNCTIONS`` (by qualified name) and ``METHODS`` (by kind of receiver and name),
which say what a call gives, and ``OBSERVERS`` (by qualified name) and ``METHOD_OBSERVERS`` (by the name of the method,
whatever it is called on), which note that a call happened and do not change what it gives. ``CALLERS`` names those that
call what they are given themselves.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_NAMES = ("FUNCTIONS", "METHODS", "OBSERVERS", "METHOD_OBSERVERS", "CALLERS")


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[Any, Any], ...]:
    tables: tuple[dict[Any, Any], ...] = ({}, {}, {}, {}, {})
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        for table, name in zip(tables, _NAMES, strict=True):
            for key, entry in dict(getattr(module, name, {})).items():
                table[key] = _both(table[key], entry) if key in table else entry
    return tables


def _both(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    """Two families note the same call, each for its own reasons; of what a call gives there is one (a test says so)."""

    def note(*given: Any) -> None:
        first(*given)
        second(*given)

    return note


def function(name: str) -> Any | None:
    """The overlay of a function, if any."""
    return _tables()[0].get(name)


def method(kind: str, name: str) -> Any | None:
    """The overlay of a method of a kind of object, if any."""
    return _tables()[1].get((kind, name))


def observer(name: str) -> Any | None:
    """What notes a call of a function, if anything does."""
    return _tables()[2].get(name)


def method_observer(name: str) -> Any | None:
    """What notes a call of a method of this name, if anything does."""
    return _tables()[3].get(name)


def calls_itself(name: str) -> bool:
    """Whether the overlay of a function calls the functions that it is given."""
    return name in _tables()[4]
