"""Evaluation of so little that nobody would notice its graphs: a part of PF102."""

from __future__ import annotations

from analyzer.engine.events import Forward, Loop
from analyzer.engine.program import Program
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, target_names, walk

_HANDFUL = 32
"""Passes that nobody waits for, and whose graphs fit where those of training do."""
_MOVES = frozenset({"to", "cuda", "long", "float", "cpu"})


def is_of_numbers(program: Program, forward: Forward, nest: tuple[Loop, ...]) -> bool:
    """Whether a cell of a notebook runs one row of numbers at a time, which it writes down as a tensor, over no loader:
    ``tower(torch.tensor([index[name]]))``. The graph of one row is small, and it is looked at once."""
    site, loop = forward.site, nest[-1]
    if not site.path.endswith(".ipynb") or program.function_around(site) is not None or loop.kind == "framework":
        return False
    call, statement = words(program).node(site), program.statement_of(loop)
    if any(program.objects[over].kind == "Loader" for over in loop.over) or not isinstance(call, ir.Call):
        return False
    given = {
        name: node.value
        for node in (walk(statement.body, into_functions=False) if statement is not None else ())
        if isinstance(node, ir.Assign) and node.value is not None
        for target in node.targets
        for name in target_names(target)
    }
    inputs = [given.get(dotted(arg.value) or "", arg.value) for arg in call.args]
    return bool(inputs) and all(_is_one_row(each) for each in inputs)


def _is_one_row(value: ir.Expr) -> bool:
    """``torch.tensor([x])``, ``table[torch.tensor([x])]``, ``torch.LongTensor([x]).to(device)``."""
    while isinstance(value, ir.Call) and isinstance(value.callee, ir.Attribute) and value.callee.attr in _MOVES:
        value = value.callee.value
    if isinstance(value, ir.Subscript):
        return _is_one_row(value.index)
    first = value.args[0].value if isinstance(value, ir.Call) and value.args else None
    is_tensor = isinstance(value, ir.Call) and (dotted(value.callee) or "").lower().endswith("tensor")
    return is_tensor and isinstance(first, ir.Display) and len(first.items) == 1


def is_detached(program: Program, forward: Forward, nest: tuple[Loop, ...]) -> bool:
    """Whether the graph is cut off in the expression that makes it: ``model(x).detach()``, or, in a loop that counts
    to a number that is written down, ``model(x).max(1)[1].detach()``. Whoever writes it knows of the graph, which
    lives for this one pass."""
    site, unit = forward.site, program.unit(forward.site.path)
    loop = program.statement_of(nest[-1]) if nest[-1].kind == "range" else None
    is_counted = loop is not None and _counted(loop.iter) is not None
    for part in of_type(unit, ir.Attribute) if unit is not None else ():
        if part.attr == "detach":
            made: ir.Expr | None = part.value
            while is_counted and made is not None and made.at != site.at:
                made = _before(made)
            if made is not None and made.at == site.at:
                return True
    return False


def _before(value: ir.Expr) -> ir.Expr | None:
    """What a method, an attribute or an item is asked of."""
    if isinstance(value, ir.Call):
        return value.callee.value if isinstance(value.callee, ir.Attribute) else None
    return value.value if isinstance(value, (ir.Attribute, ir.Subscript)) else None


def is_handful(program: Program, nest: tuple[Loop, ...]) -> bool:
    """Whether all loops around count to numbers that are written down, to a handful of passes in all: a few samples to
    look at."""
    passes = 1
    for loop in nest:
        statement = program.statement_of(loop) if loop.kind == "range" else None
        count = _counted(statement.iter) if statement is not None else None
        if count is None:
            return False
        passes *= count
    return passes <= _HANDFUL


def _counted(value: ir.Expr) -> int | None:
    """``range(8)``: as many as is written down."""
    if not isinstance(value, ir.Call) or len(value.args) != 1 or dotted(value.callee) not in {"range", "trange"}:
        return None
    bound = value.args[0].value
    return bound.value if isinstance(bound, ir.Constant) and isinstance(bound.value, int) else None
