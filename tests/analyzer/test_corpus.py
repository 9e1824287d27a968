"""What a scan says of the labels of public repositories."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.corpus import INDEPENDENT, LATER, Label, labels, refreshed

ROW = {
    "repo": "a/b", "path": "train.py", "blob": "0", "rule": "PF101", "line": 3, "severity": "warning",
    "confidence": "likely", "verdicts": ["defect", "defect"], "reason": "kept",
}  # fmt: skip
PLACE = ("a/b", "train.py", "PF101", 3)


@pytest.mark.parametrize(
    ("row", "found", "scanned", "now"),
    [
        (ROW, {PLACE: "note"}, {"a/b"}, "note"),
        (ROW, {}, {"a/b"}, "gone"),
        (ROW, {PLACE: "warning"}, {"a/b"}, ""),
        ({**ROW, "now": "gone"}, {PLACE: "warning"}, {"a/b"}, ""),
        ({**ROW, "now": "note"}, {}, set(), "note"),
        ({**ROW, "round": 1, "verdicts": ["defect"]}, {}, {"a/b"}, ""),
        ({**ROW, "round": INDEPENDENT[-1], "verdicts": ["defect"]}, {}, {"a/b"}, "gone"),
        ({**ROW, "round": LATER, "verdicts": ["defect"]}, {}, {"a/b"}, "gone"),
    ],
)
def test_a_row_says_what_its_finding_is_by_now(
    row: dict[str, Any], found: dict[tuple[str, str, str, int], str], scanned: set[str], now: str
) -> None:
    assert Label.from_json(refreshed(row, found, scanned)).now == now


def test_only_rows_of_independent_readers_are_refreshed() -> None:
    assert {item.now for item in labels() if item.round not in {0, *INDEPENDENT, LATER}} == {""}
