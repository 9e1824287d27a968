"""The names that the tables use for what can be imported from several places (``homes.toml``)."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources

from analyzer.toml import parse_toml


@cache
def _rows() -> tuple[tuple[re.Pattern[str], str], ...]:
    text = (resources.files("analyzer.knowledge") / "homes.toml").read_text("utf-8")
    return tuple((re.compile(row["pattern"]), row["name"]) for row in parse_toml(text)["home"])


@lru_cache(maxsize=4096)
def public_name(name: str) -> str:
    """``torch.nn.parameter.Parameter`` as ``torch.nn.Parameter``; every other name as it is."""
    if not name.startswith("torch."):
        return name
    for pattern, public in _rows():
        if match := pattern.fullmatch(name):
            return match.expand(public)
    return name
