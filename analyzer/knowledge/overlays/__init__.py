"""APIs that a row cannot express, one file per family, behind the same lookup as the rows.

Each module of this folder has ``FUNCTIONS`` (by qualified name) and ``METHODS`` (by kind of receiver and name).
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[str, Any], dict[tuple[str, str], Any]]:
    functions: dict[str, Any] = {}
    methods: dict[tuple[str, str], Any] = {}
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        functions.update(module.FUNCTIONS)
        methods.update(module.METHODS)
    return functions, methods


def function(name: str) -> Any | None:
    """The overlay of a function, if any."""
    return _tables()[0].get(name)


def method(kind: str, name: str) -> Any | None:
    """The overlay of a method of a kind of object, if any."""
    return _tables()[1].get((kind, name))
