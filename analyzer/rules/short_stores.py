"""Stores that end with a step, a batch or a list: what they keep does not pile up."""

from __future__ import annotations

from analyzer.engine.events import Forward, Loop, Store
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.values import Tensor, Unknown
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, target_names, walk

_REORDERS = frozenset({"sorted", "zip", "reversed", "enumerate", "list", "tuple"})


def is_evaluated(program: Program, carrier: Tensor | Unknown) -> bool:
    """Whether the passes run in evaluation mode: that gradients are on there, PF102 says."""
    passes = [event for event in program.of(Forward) if event.site in carrier.roots]
    return bool(passes) and all(event.is_eval == "yes" for event in passes)


def is_short(program: Program, store: Store, loops: tuple[Loop, ...]) -> bool:
    """Whether a store lives for a counted loop inside one step over the data (a few updates of a discriminator), or for
    the rows of one batch (the tasks of a meta-learner)."""
    if all(_is_over_rows(program, loop) for loop in loops):
        return True
    around = store.loops[: len(store.loops) - len(loops)]
    return all(loop.kind == "range" for loop in loops) and any(loop.kind == "data" for loop in around)


def _is_over_rows(program: Program, loop: Loop) -> bool:
    """Whether a loop goes over the rows of one tensor: what it is over is asked for its shape as well."""
    node, function = words(program).node(loop.site), program.function_around(loop.site)
    if function is None or not isinstance(node, ir.For) or not isinstance(node.iter, ir.Name):
        return loop.runs_over == "tensor"
    name = node.iter.id
    return any(
        isinstance(part, ir.Attribute)
        and part.attr in {"shape", "size", "dim"}
        and isinstance(part.value, ir.Name)
        and part.value.id == name
        for part in walk(function.body, False)
    )


def is_sorted(program: Program, store: Store) -> bool:
    """Whether a comprehension puts what there is into another list: nothing computes an item."""
    value = words(program).node(Site(store.site.path, store.value_at))
    over = words(program).node(store.loops[-1].site)
    if not isinstance(value, ir.Name) or not isinstance(over, ir.Expr):
        return False
    calls = (part for part in walk((ir.Evaluate(over.at, over),), True) if isinstance(part, ir.Call))
    return all(dotted(call.callee) in _REORDERS for call in calls)


def starts_over(program: Program, store: Store) -> bool:
    """Whether a loop before a running sum, in the same iteration, gives its name another value: that it runs at least
    once is taken for granted."""
    node, loop = words(program).node(store.site), words(program).node(store.loops[-1].site)
    if not isinstance(node, ir.Augment) or not isinstance(node.target, ir.Name) or not isinstance(loop, ir.For):
        return False
    name = node.target.id
    return any(
        isinstance(each, ir.Assign) and name in {named for target in each.targets for named in target_names(target)}
        for inner in loop.body
        if isinstance(inner, ir.For) and inner.at < node.at
        for each in inner.body
    )
