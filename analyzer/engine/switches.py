"""Contexts and decorators that may switch gradients off, as far as their names tell: of a project whose code was not
read, ``with evaluating(model, no_grad=True)``, ``@make_nograd_func``.

What runs under one may build a graph, or none. A name proves nothing: it only makes the grad mode unknown.
"""

from __future__ import annotations

from analyzer.engine.values import External, Unknown, Value
from analyzer.knowledge.words import pattern
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted


def may_switch_gradients(value: Value, context: ir.Expr | None = None) -> bool:
    """Whether a decorator, or what a ``with`` enters, was not read and is called like one that switches gradients."""
    names = [_name(case) for case in value.cases if isinstance(case, (Unknown, External))]
    if not names or any(name.startswith("torch.") for name in names):
        return False
    is_said = any(_says_so(name.rpartition(".")[2]) for name in names if name)
    return is_said or (context is not None and _says_so(_written(context)))


def _name(case: Unknown | External) -> str:
    return case.name if isinstance(case, External) else case.called


@remembered(maxsize=512)
def _says_so(text: str) -> bool:
    return pattern("may switch gradients").search(text) is not None


def _written(context: ir.Expr) -> str:
    """The last name of what makes a context, and those of its options."""
    if not isinstance(context, ir.Call):
        return (dotted(context) or "").rpartition(".")[2]
    names = [(dotted(context.callee) or "").rpartition(".")[2]]
    return " ".join([*names, *(arg.keyword for arg in context.args if arg.keyword)])
