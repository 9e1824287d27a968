"""Lowering: the same bytes give the same numbers, and each number leads back to its node."""

from __future__ import annotations

import libcst as cst

from analyzer.syntax import ir
from analyzer.syntax.lower import lower
from analyzer.syntax.scope import walk

SOURCE = """
import a.b as c
from . import d
@deco(1)
async def f(x, *args, y: int = 2, **kw):
    global g
    with open("p") as h, k:
        for i, (j, *rest) in enumerate(x):
            if i == 1 < 2 and not j:
                z = [q for q in rest if q]
            elif j:
                continue
            else:
                del z[0]
    try:
        return {1: f"{x!r}", **kw}
    except (A, B) as e:
        raise
    finally:
        await e
class C(Base, metaclass=M):
    v: int = 1
    w = lambda s, /, t=3: (yield t)
match x:
    case [first, *others] if first: pass
x[1:2, ...] += y if z else -w
"""


def test_lowering_is_deterministic_and_numbers_lead_back() -> None:
    module = cst.parse_module(SOURCE)
    unit, nodes = lower(module, "m.py")
    again, _ = lower(cst.parse_module(SOURCE), "m.py")
    assert unit.num_nodes == again.num_nodes == len(nodes)
    names = {node.id: node for node in walk(unit.body, into_functions=True) if isinstance(node, ir.Name)}
    for name, node in names.items():
        found = nodes[node.at]
        assert isinstance(found, cst.Name)
        assert found.value == name


def test_a_function_knows_its_own_names() -> None:
    unit, _ = lower(cst.parse_module(SOURCE), "m.py")
    function = next(item for item in unit.body if isinstance(item, ir.FunctionDef))
    assert function.locals == {"x", "args", "y", "kw", "h", "i", "j", "rest", "z", "e"}
    assert function.outer == {"g"}


def test_a_long_chain_of_operators_needs_no_deep_stack() -> None:
    unit, _ = lower(cst.parse_module("x = " + " + ".join(["a"] * 200)), "m.py")
    assert unit.num_nodes > 200


def test_uses_are_collected_by_name() -> None:
    unit, _ = lower(cst.parse_module("model.train()\nself.net(x)\nfor b in loader: loss.backward()\n"), "m.py")
    assert unit.uses["model"] == {"train"}
    assert unit.uses["self.net"] == {"()"}
    assert unit.uses["loader"] == {"for"}
    assert unit.uses["loss"] == {"backward"}
