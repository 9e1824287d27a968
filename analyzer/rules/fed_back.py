"""Whether what a pass without gradients gives goes into the loss of the training around it."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.engine.events import Backward, Forward
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import words
from analyzer.rules.modes import Timeline, shared
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, walk

_KEEPS = frozenset({"append", "extend", "add", "update", "put", "push", "store", "insert"})
"""Methods by which a container gets what it is handed."""


def is_trained_on(timeline: Timeline, forward: Forward) -> bool:
    """Whether a helper runs the network that is in training, and its caller trains on what it gives: samples of the
    policy and their log-probabilities (GRPO, PPO), pseudo-labels. They are those of the network as it trains."""
    later = (each for each in timeline.backwards if shared(each, forward) and timeline.at(each) > timeline.at(forward))
    return any(_reaches(timeline.program, forward, each) for each in later)


def _reaches(program: Program, forward: Forward, backward: Backward) -> bool:
    depth = 0
    for mine, other in zip(forward.calls, backward.calls, strict=False):
        if mine != other:
            break
        depth += 1
    if len(forward.calls) <= depth:
        return False  # no helper is between them
    start = forward.calls[depth]
    end = backward.calls[depth] if len(backward.calls) > depth else backward.site
    function = program.function_around(start)
    unit = program.unit(start.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    return start.path == end.path and _flows(body, start, words(program).node(end), end)


def _flows(body: ir.Block, start: Site, end: object, at: Site) -> bool:
    """Whether the value of the call at `start` goes, by the names that are given it, into the call `end`."""
    holding: set[str] = set()
    steps = [node for node in walk(body, False) if isinstance(node, (ir.Assign, ir.Augment, ir.For, ir.Evaluate))]
    for node in sorted(steps, key=lambda node: node.at):
        if node.at > at.at:
            break
        targets, value = _step(node)
        is_held = value is not None and (holding & set(_named(value)) or _holds(value, start))
        if is_held:
            holding.update(targets)
        elif isinstance(node, (ir.Assign, ir.For)):
            holding.difference_update(targets)
    return isinstance(end, ir.Call) and bool(holding & set(_named(end)))


def _step(node: ir.Assign | ir.Augment | ir.For | ir.Evaluate) -> tuple[list[str], ir.Expr | None]:
    """The names that a statement gives a value, and the value."""
    if isinstance(node, ir.Assign):
        targets, value = [name for each in node.targets for name in _given(each)], node.value
    elif isinstance(node, ir.Augment):
        targets, value = [*_given(node.target)], node.value
    elif isinstance(node, ir.For):
        targets, value = [*_given(node.target)], node.iter
    else:
        call, targets, value = node.value, [], None
        if isinstance(call, ir.Call) and isinstance(call.callee, ir.Attribute) and call.callee.attr in _KEEPS:
            targets, value = [*_given(call.callee.value)], call
    return targets, value


def _given(target: ir.Expr) -> Iterator[str]:
    """The chains of names that a target stands for; an item is the whole."""
    if isinstance(target, ir.Display):
        for item in target.items:
            yield from _given(item)
    elif isinstance(target, (ir.Subscript, ir.Starred)):
        yield from _given(target.value)
    elif name := dotted(target):
        yield name


def _named(value: ir.Expr) -> Iterator[str]:
    """The variables and attributes in an expression, as chains: ``batch`` and ``batch.old`` of ``batch.old + 1``."""
    for part in walk((value,), False):
        name = dotted(part) if isinstance(part, (ir.Name, ir.Attribute)) else None
        if name is not None and name != "self":
            yield name


def _holds(value: ir.Expr, start: Site) -> bool:
    return any(getattr(part, "at", None) == start.at for part in walk((value,), False))
