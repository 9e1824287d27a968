"""What torch-preflight answers to the public measured rows, as its own command does.

    python score_vram.py --quality AB --dump DUMP.jsonl --template 'torch-preflight estimate {flags} -f json'
    python -m benchmarks.peer DUMP.jsonl

The first is the collection's own scorer (its head says more); the second keeps its answers in ``benchmarks/peer.csv``.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("peer.csv")
_COLUMNS = ("id", "mode", "low", "point", "high", "band")


@dataclass(frozen=True, slots=True)
class Answer:
    """Its interval in GiB and its verdict."""

    low: float
    point: float
    high: float
    band: str

    @property
    def says_oom(self) -> bool:
        """Whether it calls the run out of memory."""
        return self.band.endswith("OOM")


def answers() -> dict[tuple[str, str], Answer]:
    """Row and mode -> its answer. `strict`: its options can say the run; `naive`: it was asked all the same."""
    with TABLE.open(encoding="utf-8", newline="") as handle:
        return {
            (row["id"], row["mode"]): Answer(float(row["low"]), float(row["point"]), float(row["high"]), row["band"])
            for row in csv.DictReader(handle)
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Keep the answers of a dump."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", type=Path)
    found = [json.loads(line) for line in parser.parse_args(argv).dump.read_text(encoding="utf-8").splitlines()]
    with TABLE.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for item in sorted(found, key=lambda one: (one["id"], one["mode"])):
            if item["status"] == "scored":
                ends = (f"{item[end]:.3f}" for end in ("low", "point", "high"))
                writer.writerow([item["id"], item["mode"], *ends, item["verdict"]])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
