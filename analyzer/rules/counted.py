"""Whether a file itself, or a text of its tree, says how many iterations a periodic condition counts."""

from __future__ import annotations

from analyzer.engine.control import resets_counter
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import words
from analyzer.rules.offered import declares_option, default_of, dest_of
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, of_type, target_values, walk


def is_written(program: Program, condition: Site) -> bool:
    """Whether the number that a periodic condition divides by, or counts to, is written down as two or more: there, as
    what a variable or a key of its file is given, as a default or as that of an option, or in the configurations and
    scripts of the tree. Where the condition shows no number, it may be."""
    unit, moduli = program.unit(condition.path), _moduli(program, condition)
    return unit is None or not moduli or any(_number(program, unit, each) > 1 for each in moduli)


def is_one(program: Program, condition: Site) -> bool:
    """Whether the number that a periodic condition divides by, or counts to, is written down, and never as more than
    one: the condition holds each time, as far as anybody wrote."""
    unit, moduli = program.unit(condition.path), _moduli(program, condition)
    return unit is not None and bool(moduli) and all(_number(program, unit, each) == 1 for each in moduli)


def _moduli(program: Program, condition: Site) -> list[ir.Expr]:
    """``n`` of ``step % n == 0``, and of ``if count == n: …; count = 0`` where a number is known."""
    node = words(program).node(condition)
    if not isinstance(node, ir.If):
        return []
    parts = walk((ir.Evaluate(node.at, node.test),), False)
    found = [
        part.right for part in parts if isinstance(part, ir.Operation) and part.op == "%" and part.right is not None
    ]
    if not found and isinstance(node.test, ir.Operation) and node.test.right is not None and resets_counter(node):
        reset = {dotted(to) for part in node.body if isinstance(part, ir.Assign) for to in part.targets}
        sides = [side for side in (node.test.left, node.test.right) if dotted(side) not in {*reset, None}]
        unit = program.unit(condition.path)
        found = [side for side in sides if unit is not None and _number(program, unit, side)]
    return found


def _number(program: Program, unit: ir.Unit, value: ir.Expr) -> int:
    """The largest that is written down; 0 if none is."""
    if isinstance(value, ir.Constant):
        return value.value if isinstance(value.value, int) else 0
    name = _setting(value)
    pairs = (pair for each in of_type(unit, ir.Assign) for pair in target_values(each))
    given: list[ir.Expr | None] = [value for target, value in pairs if _setting(target) == name]
    given += [param.default for each in of_type(unit, ir.FunctionDef) for param in each.params if param.name == name]
    given += [value for each in of_type(unit, ir.DictDisplay) for key, value in each.items if _is_text(key, name)]
    options = (each for each in of_type(unit, ir.Call) if declares_option(each))
    given += [default_of(each) for each in options if dest_of(each) == name]
    numbers = [each.value for each in given if isinstance(each, ir.Constant) and isinstance(each.value, int)]
    return max([*numbers, program.project.largest(name)]) if name else 0


def _setting(value: ir.Expr) -> str:
    """``n`` of ``n``, ``args.n`` and ``cfg["n"]``."""
    if isinstance(value, ir.Subscript) and isinstance(value.index, ir.Constant) and isinstance(value.index.value, str):
        return value.index.value
    return last_name(value)


def _is_text(key: ir.Expr | None, name: str) -> bool:
    return isinstance(key, ir.Constant) and key.value == name
