"""The tables of this folder, read once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from analyzer.toml import parse_toml


@cache
def table(name: str) -> Mapping[str, Any]:
    """``NAME.toml`` as a mapping."""
    text = (resources.files("estimator.resolve") / f"{name}.toml").read_text("utf-8")
    document: dict[str, Any] = parse_toml(text)
    return document
