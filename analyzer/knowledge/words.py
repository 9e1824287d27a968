"""Words by which people call what they write (``words.toml``)."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from analyzer.toml import parse_toml


@cache
def pattern(name: str) -> re.Pattern[str]:
    """The words of a row, to search for in a name or in the text of a place."""
    return _rows()[name]


@cache
def _rows() -> dict[str, re.Pattern[str]]:
    rows = parse_toml((resources.files("analyzer.knowledge") / "words.toml").read_text("utf-8"))["words"]
    return {
        row["name"]: re.compile("|".join(row["any"]), re.IGNORECASE * row.get("is_any_case", False)) for row in rows
    }
