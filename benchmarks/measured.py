"""The public measured rows, and the number of an estimate that each of them is comparable with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analyzer.errors import InputError
from estimator.api import Estimate, Interval, RunConfig
from estimator.estimation import estimate, targets
from estimator.runconfig import UNSET
from estimator.sourced import Origin

ROWS = Path(__file__).parent.parent / "tests" / "data" / "measured_peaks_public.jsonl.gz"
_ANSWERS = ("measured_gib", "published_value", "oom", "ran_only", "split", "unit_note", "suspect", "extra", "quality")
_NOT_OCCUPIED = {
    "max_allocated": "allocated",
    "max_active": "allocated",
    "max_reserved": "reserved",
    "unknown": "reserved",
}


@dataclass(frozen=True, slots=True)
class Scored:
    """A row, our estimate of it, and the interval that is comparable with what was measured."""

    row: dict[str, Any]
    result: Estimate

    @property
    def comparable(self) -> Interval | None:
        """Allocated, reserved or occupied, as the row was measured."""
        kind = _NOT_OCCUPIED.get(self.row["measured_kind"], "peak")
        found: Interval | None = getattr(self.result, kind)
        return found

    @property
    def measured_bytes(self) -> float | None:
        """What was measured."""
        value = self.row["measured_gib"]
        return None if value is None else float(value) * 2**30


def load(path: Path = ROWS, qualities: str = "ABC") -> list[dict[str, Any]]:
    """The rows, without those whose published value contradicts their own configuration."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as handle:
        rows = [json.loads(line) for line in handle if line.strip()]
    wanted = [row for row in rows if row["quality"] in qualities and not row.get("suspect")]
    return [{"suspect": False, "ran_only": False, "group": row["source"], "category": "", **row} for row in wanted]


def run_of(row: dict[str, Any]) -> RunConfig:
    """The row's configuration, with everything that could give the answer away removed."""
    asked = {key: value for key, value in row.items() if key not in _ANSWERS}
    return RunConfig.from_document(asked, Origin("measured row"))


def score(rows: Sequence[dict[str, Any]]) -> list[Scored]:
    """Our estimate of every row."""
    return [Scored(row, estimate(targetable(run_of(row)), with_suggestions=False)) for row in rows]


def targetable(run: RunConfig) -> RunConfig:
    """The run without GPU names that we do not know: the memory size still counts."""
    try:
        targets(run)
    except InputError:
        return replace(run, gpu=UNSET)
    return run
