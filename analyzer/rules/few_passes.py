"""Evaluation of so little that nobody would notice its graphs: a part of PF102."""

from __future__ import annotations

from analyzer.engine.events import Forward, Loop
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type

_HANDFUL = 32
"""Passes that nobody waits for, and whose graphs fit where those of training do."""


def is_looked_at(site: Site, nest: tuple[Loop, ...]) -> bool:
    """Whether a cell of a notebook runs it: by hand, once, and what comes out is looked at."""
    return site.path.endswith(".ipynb") and nest[-1].kind != "framework"


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
