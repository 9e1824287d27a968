"""Files that nobody wrote: half a megabyte of one token. Each is analysed, or refused with a note, in seconds; the most
that is read, four times as much, takes four times as long."""

from __future__ import annotations

import time

import pytest

from analyzer.api import Options, analyze
from analyzer.nesting import MAX_FILE_BYTES, too_deep
from tests.analyzer.mdcases import Case

_HEAD = "import torch\n"
_TAIL = "\n\ndef train(model, loader, opt):\n    for x, y in loader:\n        model(x).backward()\n        opt.step()\n"
_ROOM = MAX_FILE_BYTES // 4
_SECONDS = 6
"""Of the processor: several times what the slowest takes on a busy machine."""


def _filled(begin: str, unit: str, end: str, share: float = 1.0) -> str:
    return begin + unit * int(share * _ROOM / len(unit)) + end


NESTED = {
    "f-strings": _filled("x = ", "f'", ""),
    "empty f-strings": _filled("x = ", "f''", ""),
    "f-strings in f-strings": _filled("x = ", "f'{", ""),
    "braces in an f-string": _filled("x = f'", "{", "'"),
    "strings": _filled("x = ", "'a' ", ""),
    "parentheses": _filled("x = ", "(", ""),
    "brackets": _filled("x = ", "[", ""),
    "calls": _filled("x = a", "()", ""),
    "attributes": _filled("x = a", ".b", ""),
    "lambdas": _filled("x = ", "lambda:", "0"),
    "not": _filled("x = ", "not ", "1"),
    "sums": _filled("x = ", "a+", "a"),
    "conditions": _filled("x = ", "a if b else ", "c"),
    "elif": _filled("if a:\n    pass\n", "elif a:\n    pass\n", ""),
    "dicts in dicts": _filled("x = ", "{'a':", ""),
}
FLAT = {
    "fields of an f-string": _filled("x = f'", "{a}", "'"),
    "elements": _filled("x = [", "1,", "]"),
    "a dict": _filled("x = {", "'k': 1,", "}"),
    "keywords": _filled("f(", "a=1,", ")"),
    "targets": _filled("", "a = ", "1", 0.5),
    "deleted names": _filled("del ", "a,", "b", 0.5),
    "imports": _filled("import ", "a,", "b", 0.5),
    "imported names": _filled("from a import (", "b,", ")", 0.5),
    "handlers": _filled("try: pass\n", "except a: pass\n", "", 0.5),
    "statements": _filled("", "x=1;", "x=2"),
    "comments": "#a\n" * 75_000,
    "empty lines": "\n" * 75_000,
}


@pytest.mark.parametrize("text", [*NESTED.values(), *FLAT.values()], ids=[*NESTED, *FLAT])
def test_many_of_one_token_are_done_or_refused_in_seconds(text: str) -> None:
    start = time.process_time()
    report = analyze(Case("", {"a.py": f"{_HEAD}{text}{_TAIL}"}), ["a.py"], Options(select=frozenset({"PF201"})))
    assert time.process_time() - start < _SECONDS
    assert report.skipped or [item.rule for item in report.findings] == ["PF201"]
    assert all("internal error" not in item.reason for item in report.skipped)


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_what_nests_is_refused_before_anything_reads_it(text: str) -> None:
    assert too_deep(f"{_HEAD}{text}".encode()) is not None


def test_the_fields_of_one_f_string_are_counted() -> None:
    def source(number: int, quotes: str) -> bytes:
        return f"x = f{quotes}{'{a}' * number}{quotes}\n".encode()

    for quotes in ("'", '"""'):
        assert too_deep(source(100_000, quotes)) == "so many fields in one f-string that parsing would take minutes"
        assert too_deep(source(20_000, quotes)) is None
    assert too_deep(b"x = [" + b"f'{a}', " * 100_000 + b"]\n") is None
