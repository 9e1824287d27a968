"""The tables of this folder, read once."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

_TOML = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


@cache
def table(name: str) -> Mapping[str, Any]:
    """``NAME.toml`` as a mapping."""
    text = (resources.files("estimator.resolve") / f"{name}.toml").read_text("utf-8")
    document: dict[str, Any] = _TOML.loads(text)
    return document
