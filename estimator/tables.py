"""Read the packaged tables: lazily, once, and with a clear word about a row that is wrong."""

from __future__ import annotations

import csv
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from analyzer.toml import parse_toml

_DATA = Path(__file__).with_name("data")


@cache
def document(name: str) -> dict[str, Any]:
    """``data/NAME.toml``. Raises ValueError where it is not TOML."""
    return parse_toml((_DATA / f"{name}.toml").read_text("utf-8"))


@cache
def rows(name: str, required: Collection[str] = ()) -> tuple[dict[str, str], ...]:
    """The rows of ``data/NAME.csv``. Raises ValueError naming the table for a missing column or a short row."""
    with (_DATA / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
        reader = csv.DictReader(handle)
        missing = set(required) - set(reader.fieldnames or ())
        if missing:
            raise ValueError(f"{name}.csv has no column {', '.join(sorted(missing))}")
        table = tuple(reader)
    for number, row in enumerate(table, start=2):
        if None in row or None in row.values():
            raise ValueError(f"{name}.csv line {number}: as many cells as columns are needed")
    return table


def number(row: dict[str, str], column: str) -> float | None:
    """A cell as a number; None where it is empty. Raises ValueError naming the row."""
    text = row[column]
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"column {column} of {next(iter(row.values()))!r}: {text!r} is not a number") from None
