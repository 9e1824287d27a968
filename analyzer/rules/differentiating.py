"""Networks that compute gradients themselves, or turn them off: a part of PF102."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

from analyzer.engine.events import Forward
from analyzer.engine.program import Program
from analyzer.engine.words import spelled, words
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, last_name, of_type, walk

_GRADIENTS = frozenset({"grad", "backward", "enable_grad", "requires_grad_", "jacobian", "hessian", "jacrev", "vjp"})
_MINDS = re.compile(rb"autograd\.grad\(|enable_grad\(|\.backward\(|no_grad\(|inference_mode\(")
_OFF = re.compile(r"no_grad|inference_mode")
_MAX_FILES = 16


def differentiates(program: Program, forward: Forward) -> bool:
    """Whether the pass itself computes gradients (an energy that is minimised, a force, a penalty): it cannot run
    without."""
    here = program.function_around(forward.site)
    if here is not None and any(_asks_gradient(node) for node in walk(here.body, False)):
        return True
    cls = program.objects[forward.module].cls if forward.module is not None else None
    return cls is not None and _class_differentiates(cls.node)


@remembered(maxsize=512)
def _class_differentiates(cls: ir.ClassDef) -> bool:
    methods = [each for each in cls.body if isinstance(each, ir.FunctionDef)]
    calls = (part for each in methods for part in walk(each.body, True) if isinstance(part, ir.Call))
    names = {last_name(call.callee) for call in calls}
    return bool(names & _GRADIENTS) or any(
        isinstance(part, ir.Arg) and part.keyword == "requires_grad" and _is_true(part.value)
        for each in methods
        if each.name == "forward"
        for part in walk(each.body, True)
    )


@remembered(maxsize=512)
def _class_turns_off(cls: ir.ClassDef) -> bool:
    """``def forward(self, x): with torch.no_grad(): …``."""
    passes = (each for each in cls.body if isinstance(each, ir.FunctionDef) and each.name == "forward")
    entered = (node for each in passes for node in walk(each.body, False) if isinstance(node, ir.With))
    return any(_OFF.search(spelled(item)) for node in entered for item, _ in node.items)


def _asks_gradient(node: object) -> bool:
    """``x.requires_grad = True``, ``x.requires_grad_()``: gradients of what is given are wanted."""
    if isinstance(node, ir.Assign):
        named = any(isinstance(target, ir.Attribute) and target.attr == "requires_grad" for target in node.targets)
        return named and node.value is not None and _is_true(node.value)
    return isinstance(node, ir.Call) and (dotted(node.callee) or "").endswith(".requires_grad_") and not node.args


def _is_true(value: ir.Expr) -> bool:
    return isinstance(value, ir.Constant) and value.value is True


def may_differentiate(program: Program, forward: Forward) -> bool:
    """Whether the program makes a model whose class was not read (a configuration names it), and some network of the
    tree computes gradients itself, or turns them off: if it is that one, it cannot run without, or needs nobody's help.
    """
    obj = program.objects[forward.module] if forward.module is not None else None
    if obj is None or obj.cls is not None or obj.name or obj.born not in {"unseen", "argument"}:
        return False
    others = islice(program.project.naming("forward", "", _MINDS), _MAX_FILES)
    units = [unit for path in others if (unit := program.unit(path)) is not None]
    if any(_holds(unit, _is_differentiating_module) for unit in units):
        return True
    made = words(program).node(obj.trace.site)
    call = made.value if isinstance(made, ir.Assign) else made
    is_chosen = isinstance(call, ir.Call) and isinstance(call.callee, (ir.Subscript, ir.Call))  # ``METHODS[name](…)``
    return (is_chosen or obj.born == "argument") and any(_holds(unit, _class_turns_off) for unit in units)


def _is_differentiating_module(cls: ir.ClassDef) -> bool:
    return any((dotted(base.value) or "").endswith("Module") for base in cls.bases) and _class_differentiates(cls)


def _holds(unit: ir.Unit, does: Callable[[ir.ClassDef], bool]) -> bool:
    """Whether a file has a network that does so."""
    return any(
        does(cls)
        for cls in of_type(unit, ir.ClassDef)
        if cls.bases and any(isinstance(each, ir.FunctionDef) and each.name == "forward" for each in cls.body)
    )
