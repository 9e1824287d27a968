"""The parser overflows the C stack on deep nesting; what is let through must never come near that."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from analyzer import nesting
from analyzer.nesting import MAX_DEPTH, MAX_ELIFS, MAX_FILE_BYTES, MAX_FILE_LINES, MAX_PATTERN_HEIGHT, decode, too_deep
from tests.analyzer.shapes import SHAPES

_USE = """
import sys, libcst
from analyzer.nesting import recursion_room, too_deep
from analyzer.syntax.lower import lower
for source in sys.stdin.buffer.read().split(b"\\0"):
    assert too_deep(source) is None
    module = libcst.parse_module(source)
    with recursion_room():
        lower(module, "x.py")
        assert module.bytes == source
print("survived")
"""


def _deepest_allowed(name: str) -> str:
    low, high = 1, MAX_ELIFS + 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if too_deep(SHAPES[name](middle).encode()) is None else (low, middle - 1)
    return SHAPES[name](low)


@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.parametrize("depth", [3_000, 10_000])
def test_what_would_end_the_process_is_refused_with_its_line(name: str, depth: int) -> None:
    reason = too_deep(b"\n\n" + SHAPES[name](depth).encode())
    assert reason is not None
    if "elif" in name:
        assert re.fullmatch(rf"[\d,]+ `elif` branches above line \d+; at most {MAX_ELIFS:,} are analysed", reason)
    else:
        assert f"at line 3; at most {MAX_DEPTH} are analysed" in reason


def test_a_child_survives_every_shape_at_the_limit() -> None:
    sources = "\0".join(_deepest_allowed(name) for name in sorted(SHAPES))
    done = subprocess.run([sys.executable, "-I", "-c", _USE], input=sources.encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout.decode().strip()) == (0, "survived"), done.stderr.decode()[-2000:]


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_half_the_limit_is_fine(name: str) -> None:
    assert too_deep(SHAPES[name](MAX_DEPTH // 2).encode()) is None


@pytest.mark.parametrize(
    "source",
    [
        b"x = [" + b"(1, 2), " * 20_000 + b"]\n",
        b"f(a)(b)\n" * 20_000,
        b"x = '" + b"(" * 5_000 + b"'\n",
        b'"""' + b"[" * 5_000 + b'"""\n',
        b"# " + b"(" * 5_000 + b"\n",
        b"x = f'" + b"(" * 5_000 + b"{a}'\n",
        b"if a: pass\n" + b"elif a: pass\n" * 900,
        b"a = " * 2_000 + b"1\n",
        b"if a: pass\nelif b: pass\nx\n" * 1_000,
        b"x = 'unterminated\n" + b"y = (\n",
        b"\xef\xbb\xbfx = 1\r\n",
        b"# coding: latin-1\nx = '\xe9'\n",
        b"",
        b"\x0c\n",
    ],
)
def test_long_but_flat_is_fine(source: bytes) -> None:
    assert too_deep(source) is None


def test_a_bracket_that_is_never_closed_does_not_swallow_the_file() -> None:
    assert too_deep(b"x = foo(1\n" + b"def f(a):\n    return a.b.c + 1\n" * 500) is None


def test_case_patterns_cost_double_for_each_bracket_and_are_cut_early() -> None:
    def pattern(depth: int) -> bytes:
        return b"match x:\n    case " + b"[" * depth + b"a" + b"]" * depth + b": pass\n"

    assert too_deep(pattern(MAX_PATTERN_HEIGHT)) is None
    assert too_deep(pattern(MAX_PATTERN_HEIGHT + 15)) is not None


@pytest.mark.parametrize("shape", [b"f(" * 290 + b"1" + b")" * 290, b"a" + b"(1)" * 200])
def test_many_nested_statements_would_parse_for_minutes_and_a_few_are_fine(shape: bytes) -> None:
    assert too_deep((shape + b"\n") * 5) is None
    reason = too_deep((shape + b"\n") * (MAX_FILE_BYTES // (len(shape) + 1)))
    assert reason == "so many nested brackets that parsing would take minutes"


def test_five_megabytes_are_refused_by_size() -> None:
    assert (
        too_deep(b"x = 1\n" * 900_000)
        == f"5,400,000 bytes long; files of at most {MAX_FILE_BYTES:,} bytes are analysed"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"x = 1\ny = '\xff'\n", "not UTF-8 at line 2 (byte 0xff), and no other encoding is declared"),
        (b"# coding: utf-7\nx = +ACgAKAAo-\n", "the encoding utf-7 is not supported"),
        (b"# coding: no-such-thing\nx\n", "unknown encoding: no-such-thing"),
    ],
)
def test_text_that_cannot_be_read_says_why(source: bytes, expected: str) -> None:
    assert too_deep(source) == expected


def test_decode_honours_the_cookie() -> None:
    assert decode(b"# coding: latin-1\n'\xe9'\n") == "# coding: latin-1\n'é'\n"


_PIECES = (
    "(", ")", "[", "]", "{", "}", ", ", "; ", ".a", " + ", " == ", " not ", " in ", " if ", " for ", "lambda: ", "x",
    "1", "\n", "\n    ", "\n        ", "\\\n", "'s'", '"t"', "f'{a.b}'", 'rf"{(c)}"', "'it\\'s'", "'''x\ny'''", "# (\n",
    "'", '"', "=", ":=", "\nreturn ", "\n  def f():\n", "\nif x:\n  ", "\nelif y:\n  ", "\nelse:\n  ", "import ",
)  # fmt: skip


def test_the_rough_count_never_calls_flat_what_the_scan_finds_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a limit that small texts reach."""
    monkeypatch.setattr(nesting, "MAX_DEPTH", 9)
    monkeypatch.setattr(nesting, "MAX_PARSE_COST", 60)
    chance, flat, deep = random.Random(5), 0, 0
    for _ in range(4_000):
        source = "".join(chance.choices(_PIECES, k=chance.randint(1, 60))).encode()
        scan = nesting._Scan(source)
        scan.run()
        is_deep = scan.deepest > 9 or scan.cost > 60
        is_flat = nesting._is_surely_flat(source)
        assert not (is_flat and is_deep), source
        flat, deep = flat + is_flat, deep + is_deep
    assert min(flat, deep) > 100


def test_lines_are_bounded_empty_ones_too() -> None:
    """A file of two million empty lines is small, and its tree is not."""
    assert too_deep(b"\n" * MAX_FILE_LINES) is None
    assert too_deep(b"\n" * 2_000_000) == "2,000,000 lines long; files of at most 300,000 lines are analysed"
    assert "lines long" in (too_deep(b"\r" * 500_000) or "")
