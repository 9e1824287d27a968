"""Schedulers that were made by code that was not read: what shows is their name, and where they are stepped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.knowledge.words import pattern
from analyzer.records import dataclass, replace
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, walk

_STEPS = re.compile(rb"sched\w{0,40}\.step\(\s*\)")


@dataclass(frozen=True, slots=True)
class _Called:
    """A call that is a statement, the loops around it, and whether no condition stands around it, but for one
    that holds every n-th time. `name`: what is called, with its object."""

    name: str
    at: int
    loops: tuple[int, ...]
    has_arguments: bool
    is_sure: bool

    @property
    def stepped(self) -> str:
        """The object whose ``step()`` this is."""
        return self.name[: -len(".step")] if self.name.endswith(".step") else ""


def stepped_twice(program: Program, known: frozenset[Site]) -> Iterator[tuple[Site, Site, bool]]:
    """Two steps of what is named as a scheduler, of which one follows the optimizer's, and the other is in a loop
    around: per batch and per epoch, or both in one iteration. The first, the second, and whether that is in one
    iteration. `known`: the steps that something was told of."""
    for path in program.modules:
        source = program.project.read(path) or b""
        if len(_STEPS.findall(source)) < 2 or (unit := program.unit(path)) is None:
            continue
        functions: dict[str, ir.FunctionDef | None] = {}
        for function in of_type(unit, ir.FunctionDef):
            functions[function.name] = None if function.name in functions else function
        bodies = [unit.body, *(function.body for function in of_type(unit, ir.FunctionDef))]
        told: set[Site] = set()
        for body in bodies:
            calls = list(_of_block(body, ()))
            for call in [each for each in calls if each.loops and each.is_sure]:
                calls.extend(_within(call, functions))
            for first, second in _pairs(calls):
                sites = Site(path, first.at), Site(path, second.at)
                if not known & {*sites} and not told & {*sites}:
                    told.update(sites)
                    yield *sites, first.loops == second.loops


def _of_block(block: ir.Block, loops: tuple[int, ...], is_sure: bool = True) -> Iterator[_Called]:
    for node in block:
        if isinstance(node, (ir.For, ir.While)):
            yield from _of_block(node.body, (*loops, node.at), is_sure)
        elif isinstance(node, (ir.With, ir.Try)):
            yield from _of_block(node.body, loops, is_sure)
        elif isinstance(node, ir.If):
            yield from _of_block(node.body, loops, is_sure and _is_every_nth(node.test))
            yield from _of_block(node.orelse, loops, False)
        elif isinstance(node, (ir.Evaluate, ir.Assign)) and isinstance(node.value, ir.Call):
            name = dotted(node.value.callee) or ""  # a call of a call has none, and is no step
            yield _Called(name, node.value.at, loops, bool(node.value.args), is_sure)


def _is_every_nth(test: ir.Expr) -> bool:
    """``(step + 1) % n == 0``, ``accelerator.sync_gradients``: a condition that no setting decides."""
    parts = list(walk((ir.Evaluate(test.at, test),), False))
    is_periodic = any(isinstance(part, ir.Operation) and part.op == "%" for part in parts)
    return is_periodic or any(isinstance(part, ir.Attribute) and part.attr == "sync_gradients" for part in parts)


def _within(call: _Called, functions: dict[str, ir.FunctionDef | None]) -> Iterator[_Called]:
    """What a function of the file does when it is called here, with what it does not hold itself."""
    function = functions.get(call.name.removeprefix("self."))
    if function is None:
        return
    for inner in _of_block(function.body, ()):
        base = inner.name.split(".")[0]
        if call.name.startswith("self.") if base == "self" else base not in function.locals:
            yield replace(inner, loops=(*call.loops, *inner.loops))


def _pairs(calls: list[_Called]) -> Iterator[tuple[_Called, _Called]]:
    trained = [call.loops for call in calls if call.stepped and pattern("steps the weights").search(call.stepped)]
    steps = [
        call
        for call in calls
        if call.is_sure and pattern("steps a schedule").search(call.stepped) and not call.has_arguments
    ]
    for first in steps:
        for second in steps:
            is_around = second.loops and first.loops[: len(second.loops)] == second.loops
            if first.at == second.at or first.stepped != second.stepped or not is_around:
                continue
            if first.loops in trained and (first.loops != second.loops or first.at < second.at):
                yield first, second
