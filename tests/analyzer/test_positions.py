"""Our positions against LibCST's own provider, on every node."""

from __future__ import annotations

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from analyzer.positions import spans

EVERYTHING = '''"""Doc."""
from __future__ import annotations
import a.b as c, d
from . import (
    x,  # one
    y as z,
)

@decorator(1)
class K(Base, metaclass=M):
    attr: int = 1

    async def f(self, /, a, *args: int, b=2, **kw) -> None:
        async with open(a) as f, g: await f
        async for i in [j async for j in k if j]: yield i
        return None

def g(*, a): return lambda *b, c=1, **d: (a if b else c)

x, *y = z = {1: 2, **m}, {1, 2}, [*a], (yield_ := 3)
x += -1 ** ~2 @ 3 // 4; y[1:2, ::3, ...] = not a is not b not in c
assert a < b <= c, f"é{x!r:>{w}}" "tail" r"raw"
del a, b[0]
if a: pass
elif b:
\tcontinue_ = 1
else: raise E from e
while True:
    break
else:
    pass
for i, in ((1,),): continue
try: pass
except (A, B) as e: pass
except: pass
else: pass
finally: pass
with (a as b, c): global_ = 1
def h():
    global q; nonlocal_ = 1
    x = yield
    y = yield from z
    print(*a, **b, sep="é",)
    return {k: v for k, v in w if k for u in v}, {s for s in t}, (g for g in h)
match x:
    case [1, *rest] | {"k": v, **kw} if rest: pass
    case K(a, b=1) as c: pass
    case a.b | None | -1: pass
    case _: pass
'''


@pytest.mark.parametrize(
    "source",
    [
        EVERYTHING,
        EVERYTHING.replace("\n", "\r\n"),
        "\ufeff" + EVERYTHING,
        "\f\n" + EVERYTHING,
        EVERYTHING.rstrip("\n"),
        "# coding: latin-1\nx = 'é'; y = x\n",
        "",
        "\n\n",
    ],
)
def test_positions_are_those_of_the_provider(source: str) -> None:
    data = source.encode("latin-1" if "latin-1" in source else "utf-8")
    module = cst.parse_module(data)
    expected = {
        node: (place.start.line, place.start.column, place.end.line, place.end.column)
        for node, place in MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider).items()
    }
    actual = {
        node: (span.start.line, span.start.column, span.end.line, span.end.column)
        for node, span in spans(module, "x.py", list(expected)).items()
    }
    assert expected == actual
