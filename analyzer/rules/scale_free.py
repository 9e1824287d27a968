"""Updates that do not depend on the size of the gradients: what a constant factor on the loss then changes."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.engine.events import Step
from analyzer.engine.optim_events import Clip
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.values import Const
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, walk

_SCALE_FREE = frozenset(["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Lion"])
"""Whose update is a ratio of gradients, or their sign (torch docs, the algorithm of each class; Lion: arXiv
2302.06675): ``k`` times the gradient is the same step, but for epsilon."""
_DECOUPLED = frozenset(["AdamW", "Lion"])


def is_scale_free(program: Program, step: Step) -> bool:
    """Whether the optimizer divides a constant factor away: no gradient is clipped, and no weight decay is added to
    gradients by what is written down."""
    made = program.objects[step.optimizer] if step.optimizer is not None else None
    kind = made.name.rpartition(".")[2] if made is not None and made.name else ""
    if made is None or kind not in _SCALE_FREE or any(True for _ in program.of(Clip)):
        return False
    decay = dict(made.arguments).get("weight_decay")
    return kind in _DECOUPLED or not (isinstance(decay, Const) and decay.value)


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
