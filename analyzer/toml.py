"""TOML text -> values. Python 3.10 lacks the standard reader; `tomli` is the same one. Imports nothing of ours."""

from __future__ import annotations

import importlib
import sys
from typing import Any

_reader: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
TomlError: type[ValueError] = _reader.TOMLDecodeError
"""What `parse_toml` raises for text that is no TOML. Deep nesting is a `RecursionError`."""


def parse_toml(text: str) -> dict[str, Any]:
    """The document. Raises `TomlError`."""
    found: dict[str, Any] = _reader.loads(text)
    return found
