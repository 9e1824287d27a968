"""The public measured rows: what may never happen, and that the committed table and page are theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from estimator.tables import rows as table

if TYPE_CHECKING:
    from benchmarks.measured import Scored


def measured(scored: list[Scored], qualities: str = "AB") -> list[tuple[Scored, float]]:
    pairs = [(item, item.measured_bytes) for item in scored if item.row["quality"] in qualities]
    return [(item, value) for item, value in pairs if value is not None and item.comparable is not None]


def test_no_run_that_ran_is_said_to_exceed(scored: list[Scored]) -> None:
    wrong = [item.row["id"] for item in scored if not item.row["oom"] and item.result.verdict == "exceeds"]
    assert wrong == []


def test_no_floor_is_above_what_was_measured(scored: list[Scored]) -> None:
    """A published "GB" may mean 1e9 bytes: half the difference is the tolerance."""
    wrong = [
        item.row["id"]
        for item, value in measured(scored)
        if item.comparable is not None and item.comparable.floor > value * 1.035
    ]
    assert wrong == []


def test_runs_that_died_are_not_said_to_fit(scored: list[Scored]) -> None:
    died = [item for item in scored if item.row["oom"] and item.row["quality"] in "AB"]
    assert len(died) >= 15
    assert [item.row["id"] for item in died if item.result.verdict == "fits"] == []


def test_nine_of_ten_measured_peaks_are_inside(scored: list[Scored]) -> None:
    pairs = measured(scored)
    inside = [item for item, value in pairs if item.comparable and item.comparable.low <= value <= item.comparable.high]
    assert len(pairs) > 200
    assert len(inside) >= 0.88 * len(pairs)


def test_sources_that_were_not_used_are_met_all_the_same(measured_rows: list[dict[str, Any]]) -> None:
    """The acceptance: every source scored with a table fitted on the others; small models on a T4 are one source."""
    from benchmarks.calibrate import leave_one_out, points

    gated = [row for row in measured_rows if row["quality"] in "AB"]
    used = points(row for row in gated if row["measured_kind"] != "unknown")
    unclear = points(row for row in gated if row["measured_kind"] == "unknown")
    assert len(unclear) > 20  # judged, and not fitted on
    found = {one.source: one for one in leave_one_out(used, unclear)}
    every, small = found["all of them"], found["tpf-calibration"]
    assert every.num_inside >= 0.9 * every.num_rows
    assert every.median_error <= 0.08
    assert every.mean_error <= 0.12
    assert every.median_width <= 0.4
    assert small.num_inside == small.num_rows == 8
    assert small.mean_error < 0.037


def test_kinds_of_run_that_were_not_used_are_met_all_the_same(measured_rows: list[dict[str, Any]]) -> None:
    """The same with whole categories left out, which no source of theirs can stand for."""
    from benchmarks.calibrate import leave_one_out, points

    gated = [row for row in measured_rows if row["quality"] in "AB"]
    used = points(row for row in gated if row["measured_kind"] != "unknown")
    found = {one.source: one for one in leave_one_out(used, key=lambda point: point.group)}
    assert {"llm-lora", "encoder", "vision-seg", "llm-generate"} <= found.keys()
    assert found["all of them"].num_inside >= 0.9 * found["all of them"].num_rows
    assert min(one.num_inside / one.num_rows for one in found.values() if one.num_rows >= 10) >= 0.7


def test_the_peers_answers_are_beside_ours() -> None:
    """Every row that its options can say has an answer of its own, with its interval in order."""
    from benchmarks import peer

    found = peer.answers()
    strict = {row for row, mode in found if mode == "strict"}
    assert strict <= {row for row, mode in found if mode == "naive"}
    assert len(strict) > 100
    assert all(one.low <= one.point <= one.high for one in found.values())


def test_few_rows_that_died_establish_no_rate(scored: list[Scored]) -> None:
    from benchmarks.accuracy import PAGE, _rate

    died = [item for item in scored if item.row["oom"] and item.result.verdict != "unknown"]
    assert "the rate is not established" in _rate(died)
    assert "0.0%" in _rate(died * 3)
    assert "the rate is not established" in PAGE.read_text(encoding="utf-8")


def test_the_committed_calibration_is_what_the_rows_give(measured_rows: list[dict[str, Any]]) -> None:
    from benchmarks.calibrate import TABLE, fit, points, render

    used = [row for row in measured_rows if row["quality"] in "AB" and row["measured_kind"] != "unknown"]
    assert TABLE.read_text(encoding="utf-8") == render(fit(points(used)))


def test_every_category_has_factors_in_order() -> None:
    for row in table("calibration"):
        assert 0 <= float(row["low"]) <= float(row["point"]), row
        assert float(row["low"]) > 0 or row["category"] == "reserved-per-state", row  # not a factor, but added to one
        assert float(row["high"]) > 0, row
