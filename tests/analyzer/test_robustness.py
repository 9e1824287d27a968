"""Damaged programs, a few hundred of them here; ``python -m benchmarks.robustness mutants`` runs ten thousand."""

from __future__ import annotations

import encodings
import pkgutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer import project
from analyzer.api import Options, analyze, analyze_each
from analyzer.engine import sources
from analyzer.findings import Confidence, Report
from benchmarks.mutants import mutant
from benchmarks.part_analysis import Corpus
from benchmarks.robustness import batch_problems, damage, mutated, problems, programs
from tests.analyzer.test_native import LOOP

SOURCES = programs([])


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, len(SOURCES) - 1))
def test_a_damaged_file_costs_no_other_and_shows_no_bug_of_ours(seed: int, which: int) -> None:
    assert problems(mutated(SOURCES[which], seed), LOOP.encode(), WITNESSED) == []


def test_a_mutant_is_the_same_for_the_same_seed() -> None:
    assert [mutated(SOURCES[0], seed) for seed in range(9)] == [mutated(SOURCES[0], seed) for seed in range(9)]
    assert len({mutated(SOURCES[0], seed) for seed in range(9)}) > 5


def test_the_command_answers_for_a_tree_of_them_and_its_fixes_damage_none(tmp_path: Path) -> None:
    mutants = {seed: mutant(SOURCES, seed) for seed in range(40)}
    assert {len(files) for files in mutants.values()} > {1}
    assert any("book.ipynb" in files for files in mutants.values())
    every = Options(min_confidence=Confidence.POSSIBLE)
    expected = len(analyze(Corpus({"witness.py": LOOP.encode()}), ["witness.py"], every).findings)
    assert expected
    assert batch_problems(tmp_path, mutants, LOOP.encode(), expected, is_compared=True) == []


def test_what_a_fix_must_not_do_is_seen() -> None:
    assert damage(b"x = 1\n", b"x = 2\n", is_notebook=False) == ""
    assert damage(b"x = 1\n", b"x = \n", is_notebook=False) == "no Python after a fix"
    assert "line ends" in damage(b"x = 1\r\n", b"x = 2\n", is_notebook=False)
    assert "mark" in damage(b"\xef\xbb\xbfx = 1\n", b"x = 1\n", is_notebook=False)
    assert "lines changed" in damage(b"x = 1\n" * 99, b"x = 2\n", is_notebook=False)
    assert damage(b'{"cells": []}', b'{"cells": ', is_notebook=True) == "no JSON after a fix"
    assert damage(b'{"a": 1}', b'{"a": 2}', is_notebook=True) == "another notebook after a fix"


@pytest.mark.parametrize("source", [b"", b"\n", b"\xef\xbb\xbf", b"\x00", b"\xff\xfe", b"\\", b"import torch\n\x0c"])
def test_next_to_nothing(source: bytes) -> None:
    assert problems(source, LOOP.encode(), WITNESSED) == []


ODD = {
    "a value in itself": "x = y = 1\n" + "if a:\n    x = (x, y)\nelse:\n    y = (y, x)\n" * 40,
    "a stream of itself": "x = [1]\n" + "x = map(f, zip(x, x)) if a else x\n" * 40,
    "a call of itself": "import functools\nf = g\n" + "f = functools.partial(f, f, f) if a else f\n" * 40,
    "lists of lists of themselves": "y = [1]\nz = f\n" + "y = (y, z(y)) if a else [y, y]\n" * 400,
    "a number that Python does not print": f"x = 0x{'f' * 20_000}\ny = {{x: x}}\nz = f'{{x}}'\nw = str(x) + f[x]\n",
    "numbers without an end": "x = int(1e999)\ny = int(float('nan'))\nz = round(1e999)\nw = range(int(1e999))\n",
}


@pytest.mark.parametrize("source", ODD.values(), ids=ODD)
def test_what_nobody_writes(source: str) -> None:
    whole = LOOP.encode() + source.encode()
    assert problems(whole, LOOP.encode(), WITNESSED) == []
    report = analyze(Corpus({"a.py": whole}), ["a.py"], Options())
    assert [item.reason for item in report.skipped if "too large" not in item.reason] == []
    assert [item.rule for item in report.findings] == ["PF101"]


def test_a_file_without_torch_may_use_the_syntax_of_any_version() -> None:
    files = {
        "new.py": b"class A[T]:\n    x: T = f'{'a' 'b'}'\ntype B = A[int]\ntry: pass\nexcept* B: pass\n",
        "old.py": b"print 'a'\n",
    }
    report = analyze(Corpus(files), list(files), Options())
    assert [(item.path, item.reason) for item in report.skipped] == [("old.py", "syntax error at 1:0")]


WITNESSED = len(analyze(Corpus({"witness.py": LOOP.encode()}), ["witness.py"], Options()).findings)


CODECS = sorted({module.name for module in pkgutil.iter_modules(encodings.__path__)} | {"zip", "hex", "x" * 99, "../x"})


@pytest.mark.parametrize("name", CODECS)
def test_a_file_may_name_any_encoding(name: str) -> None:
    """Some of them are no encodings of text, and fail as nothing else does."""
    for line in (b"x = 1\n", b"x = '\xe4'\n", b"x = '\xc3\xa4\x00'\n"):
        source = f"# -*- coding: {name} -*-\nimport torch\n".encode() + line
        assert problems(source, LOOP.encode(), WITNESSED) == []


def test_what_is_read_again_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large tree does not stay in memory: between two targets the files of before may go."""
    helper = b"import torch\nkept = []\n\ndef keep(item):\n    kept.append(item)\n    return item\n"
    called = LOOP.replace("total += loss", "keep(loss)").replace("import torch", "import torch\nfrom keep import keep")
    files = {"keep.py": helper, "a.py": called.encode(), "b.py": LOOP.encode(), "c.py": b"import torch\nx = (\n"}

    def reports() -> list[tuple[str, Report]]:
        return list(analyze_each(Corpus(files), [*files, "c.py", "keep.py"], Options(), list(files)))

    roomy = reports()
    assert {item.path for _, report in roomy for item in report.findings} == {"keep.py", "b.py"}
    monkeypatch.setattr(sources, "MAX_HELD_BYTES", 1)
    monkeypatch.setattr(project, "MAX_WORDS", 0)
    assert reports() == roomy
