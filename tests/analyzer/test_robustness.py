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


ODD = {
    "a value in itself": "x = y = 1\n" + "if a:\n    x = (x, y)\nelse:\n    y = (y, x)\n" * 40,
    "a stream of itself": "x = [1]\n" + "x = map(f, zip(x, x)) if a else x\n" * 40,
    "a call of itself": "import functools\nf = g\n" + "f = functools.partial(f, f, f) if a else f\n" * 40,
    "a number that Python does not print": f"x = 0x{'f' * 20_000}\ny = {{x: x}}\nz = f'{{x}}'\nw = str(x) + f[x]\n",
    "numbers without an end": "x = int(1e999)\ny = int(float('nan'))\nz = round(1e999)\nw = range(int(1e999))\n",
}


@pytest.mark.parametrize("source", ODD.values(), ids=ODD)
def test_what_nobody_writes(source: str) -> None:
    whole = LOOP.encode() + source.encode()
    assert problems(whole, LOOP.encode(), WITNESSED) == []
    report = analyze(Corpus({"a.py": whole}), ["a.py"], Options())
    assert report.skipped == ()
    assert [item.rule for item in report.findings] == ["PF101"]


def test_a_file_without_torch_may_use_the_syntax_of_any_version() -> None:
    files = {
        "new.py": b"class A[T]:\n    x: T = f'{'a' 'b'}'\ntype B = A[int]\ntry: pass\nexcept* B: pass\n",
        "old.py": b"print 'a'\n",
    }
    report = analyze(Corpus(files), list(files), Options())
    assert [(item.path, item.reason) for item in report.skipped] == [("old.py", "syntax error at 1:0")]


WITNESSED = len(analyze(Corpus({"witness.py": LOOP.encode()}), ["witness.py"], Options()).findings)
