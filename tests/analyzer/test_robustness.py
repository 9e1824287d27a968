"""Damaged programs, a few hundred of them here; ``python -m benchmarks.robustness`` runs ten thousand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.api import Options, analyze
from benchmarks.part_analysis import Corpus
from benchmarks.robustness import mutated, problems, programs
from tests.analyzer.test_native import LOOP

SOURCES = programs([])


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, len(SOURCES) - 1))
def test_a_damaged_file_costs_no_other_and_shows_no_bug_of_ours(seed: int, which: int) -> None:
    assert problems(mutated(SOURCES[which], seed), LOOP.encode(), WITNESSED) == []


def test_a_mutant_is_the_same_for_the_same_seed() -> None:
    assert [mutated(SOURCES[0], seed) for seed in range(9)] == [mutated(SOURCES[0], seed) for seed in range(9)]
    assert len({mutated(SOURCES[0], seed) for seed in range(9)}) > 5


@pytest.mark.parametrize("source", [b"", b"\n", b"\xef\xbb\xbf", b"\x00", b"\xff\xfe", b"\\", b"import torch\n\x0c"])
def test_next_to_nothing(source: bytes) -> None:
    assert problems(source, LOOP.encode(), WITNESSED) == []


WITNESSED = len(analyze(Corpus({"witness.py": LOOP.encode()}), ["witness.py"], Options()).findings)
