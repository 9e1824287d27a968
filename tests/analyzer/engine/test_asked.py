"""The conditions that a place stands under."""

from __future__ import annotations

import time

from analyzer.engine.sources import Sources
from analyzer.engine.words import spelled
from analyzer.project import Project
from analyzer.syntax import ir
from analyzer.syntax.scope import asked_around, of_type
from tests.analyzer.test_project import Texts


def _asked(source: str) -> list[str]:
    """Of the call of ``save`` in the first function."""
    unit = Sources(Project(Texts({"a.py": source.encode()}))).unit("a.py")
    function = of_type(unit, ir.FunctionDef)[0]
    calls = (call for call in of_type(unit, ir.Call) if isinstance(call.callee, ir.Name) and call.callee.id == "save")
    return sorted(map(spelled, asked_around(function.body, next(calls).at)))


def test_conditions_around_a_place_and_those_that_leave_before_it() -> None:
    source = "def f(a, b, c, d, e):\n    if a:\n        if b:\n            return\n    if c:\n        pass\n"
    source += "    if d:\n        pass\n    else:\n        save()\n    if e:\n        return\n"
    assert _asked(source) == ["a", "b", "d"]
    assert _asked("def f(a, b):\n    if a:\n        pass\n    elif b:\n        return\n    save()\n") == ["b"]
    assert (
        _asked("def f(a, b):\n    if a:\n        def g():\n            return\n    if save(b):\n        pass\n") == []
    )


def test_a_long_chain_takes_no_time_with_the_square_of_its_length() -> None:
    chain = "".join(f"    elif x == {number}:\n        return {number}\n" for number in range(800))
    begin = time.process_time()
    assert len(_asked(f"def f(x):\n    if x is None:\n        return 0\n{chain}    save()\n")) == 801
    assert time.process_time() - begin < 3
