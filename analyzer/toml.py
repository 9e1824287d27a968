"""TOML text -> values. Python 3.10 lacks the standard reader; `tomli` is the same one. Imports nothing of ours."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

_reader: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

_LONG_NUMBER = re.compile(r"\b0[xob]\w{256}")
"""Python reads such a number, and then fails to print it. Only text that may hold one is searched for it."""


class TomlError(ValueError):
    """What `parse_toml` raises for text that is no TOML. Deep nesting is a `RecursionError`.

    One of our own: the readers of newer Pythons want the text and the place of the error to make theirs.
    """


def parse_toml(text: str) -> dict[str, Any]:
    """The document. Raises `TomlError`, also for a number that Python cannot read or print."""
    try:
        found: dict[str, Any] = _reader.loads(text)
    except ValueError as error:
        raise TomlError(str(error)) from None
    if _LONG_NUMBER.search(text) and _has_long_number(found):
        raise TomlError("a number of more than 64 bits")
    return found


def _has_long_number(value: object) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_long_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and value.bit_length() > 64
