"""Names of cards and instances, and the tables behind them."""

from __future__ import annotations

import pytest

from analyzer.errors import InputError
from estimator import hardware, tables
from estimator.units import GIB


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("A100", [39.49, 79.15]),
        ("a100", [39.49, 79.15]),
        ("NVIDIA A100-SXM4-80GB", [79.15]),
        ("V100", [15.9, 31.36]),
        ("H100", [79.1]),
        ("A10G", [22.22]),
        ("A10G-24GB", [22.22]),
        ("T4-16GB", [14.56]),
        ("8x V100 GPUs", [15.9, 31.36]),
        ("A100-80GB:8", [79.15]),
        ("T4", [14.56]),
        ("p4d.24xlarge", [39.49]),
        ("a2-highgpu-1g", [39.49]),
        ("48GB", [48.0]),
        ("Tesla V100", [15.9, 31.36]),
        ("nvidia-tesla-v100", [15.9]),
        ("A6000", [47.7]),
        ("4090", [23.64]),
        ("ml.p5.48xlarge", [79.1]),
        ("Standard_ND96isr_H100_v5", [79.1]),
        ("nd96isr_h100_v5", [79.1]),
        ("H100-MIG-1g.10gb", [9.75]),
        ("A100-1g.5gb", [4.75]),
    ],
)
def test_names_and_usable_memory(name: str, gib: list[float]) -> None:
    found = [round((card.usable_bytes or 0) / GIB, 2) for card in hardware.find(name)]
    assert set(gib) <= set(found)
    assert len(found) == len(gib)


def test_an_instance_says_how_many_cards_it_has() -> None:
    (card,) = hardware.find("p4d.24xlarge")
    assert (card.count, card.architecture) == (8, "Ampere")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("8xH100", 8), ("8XH100", 8), ("8×H100", 8), ("A100-80GB:8", 8), ("p4d.24xlarge", 8), ("ml.g5.12xlarge", 4),
        ("H100", None), ("0xH100", None), ("g6f.large", None),
    ],
)  # fmt: skip
def test_a_name_says_how_many(name: str, count: int | None) -> None:
    assert hardware.count_in(name) == count
    assert hardware.find(name)


def test_a_slice_of_another_card_is_no_slice_of_this_one() -> None:
    with pytest.raises(InputError, match="no GPU"):
        hardware.find("A30-1g.10gb")


@pytest.mark.parametrize(("name", "hint"), [("A1000", "A100"), ("H10O", "H100"), ("p4d.24xlrge", "p4d.24xlarge")])
def test_an_unknown_name_gets_the_nearest_ones(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"(?i){hint}"):
        hardware.find(name)


def test_nonsense_gets_a_clear_error() -> None:
    with pytest.raises(InputError, match="no GPU or instance type"):
        hardware.find("a toaster oven with wheels")


def test_every_spelling_and_every_instance_of_the_tables_resolves() -> None:
    for row in tables.rows("gpus"):
        for alias in [row["name"], *filter(None, row["aliases"].split(";"))]:
            assert hardware.find(alias.strip()), alias
    for row in tables.rows("instances"):
        cards = hardware.find(row["instance_type"])
        assert cards, row["instance_type"]
        assert all(card.count >= 1 for card in cards)


def test_no_card_is_larger_than_its_label() -> None:
    for row in tables.rows("gpus"):
        label, (card, *_) = (
            tables.number(row, "advertised_gb"),
            [c for c in hardware.all_cards() if c.name == row["name"]],
        )
        if label and card.usable_bytes:
            assert card.usable_bytes <= label * GIB * 1.01, card.name


def test_a_size_that_is_not_the_cards_own_is_not_believed() -> None:
    with pytest.raises(InputError, match="T4"):
        hardware.find("T4-80GB")


def test_an_explicit_size_decides_between_cards_or_replaces_them() -> None:
    both = hardware.find("A100")
    assert [card.name for card in hardware.with_memory(both, 80 * GIB)] == ["NVIDIA A100 80GB SXM"]
    (custom,) = hardware.with_memory(both, 20 * GIB)
    assert custom.usable_bytes == 20 * GIB


@pytest.mark.parametrize("name", ["gpus", "instances", "models", "families", "runtime", "calibration", "modules"])
def test_tables_are_well_formed(name: str) -> None:
    assert tables.rows(name)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ValueError, match="no column price"):
        tables.rows("gpus", ("price",))


def test_a_cell_that_is_no_number_is_named() -> None:
    with pytest.raises(ValueError, match="T4"):
        tables.number({"name": "T4", "size": "large"}, "size")
