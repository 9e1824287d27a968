"""Whether a file itself says how many iterations a periodic condition counts."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, walk


def is_written(program: Program, condition: Site) -> bool:
    """Whether the number that a periodic condition divides by is written down in its file as two or more: there, as
    what a variable is given, or as a default. Where the condition shows no number, it may be."""
    node, unit = words(program).node(condition), program.unit(condition.path)
    parts = walk((ir.Evaluate(node.at, node.test),), False) if isinstance(node, ir.If) else ()
    moduli = [each.right for each in parts if isinstance(each, ir.Operation) and each.op == "%"]
    return unit is None or not moduli or any(_number(unit, each) > 1 for each in moduli if each is not None)


def _number(unit: ir.Unit, value: ir.Expr) -> int:
    if isinstance(value, ir.Constant):
        return value.value if isinstance(value.value, int) else 0
    name = _last(value)
    pairs = (pair for each in of_type(unit, ir.Assign) for pair in _pairs(each))
    given: list[ir.Expr | None] = [value for target, value in pairs if _last(target) == name]
    given += [param.default for each in of_type(unit, ir.FunctionDef) for param in each.params if param.name == name]
    numbers = [each.value for each in given if isinstance(each, ir.Constant) and isinstance(each.value, int)]
    return max(numbers, default=0) if name else 0


def _last(value: ir.Expr) -> str:
    return (dotted(value) or "").rpartition(".")[2]


def _pairs(node: ir.Assign) -> Iterator[tuple[ir.Expr, ir.Expr]]:
    """``a, b = 1, 2``: each target with its value."""
    for target in node.targets:
        if isinstance(target, ir.Display) and isinstance(node.value, ir.Display):
            yield from zip(target.items, node.value.items, strict=False)
        elif node.value is not None:
            yield target, node.value
