"""Questions about train and evaluation mode that several rules ask."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

import libcst as cst

from analyzer.engine.events import Backward, Escape, Event, Forward, Loop, Mode, Step
from analyzer.engine.program import Program
from analyzer.engine.trace import Site, Trace
from analyzer.engine.values import Const, ObjectId
from analyzer.fixes.edits import InsertStatement
from analyzer.rules.base import DraftFix


class Timeline:
    """The events of a program with their order, which of them train, and which switch a mode."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.place = {id(event): index for index, event in enumerate(program.events)}
        self.forwards = list(program.of(Forward))
        self.steps = list(program.of(Step))
        self.modes = list(program.of(Mode))
        self.backwards = list(program.of(Backward))
        self.by_trace = {event.trace: event for event in self.modes}
        self._backward_at = [self.place[id(event)] for event in self.backwards]
        roots = {root for event in self.backwards for root in event.roots}
        self.learning = [forward for forward in self.forwards if forward.site in roots]
        """Forward passes that a backward pass goes through."""
        self.stepped: frozenset[ObjectId] = frozenset(module for step in self.steps for module in step.modules)
        self.trained = self.stepped | {forward.module for forward in self.learning if forward.module is not None}

    def at(self, event: Event) -> int:
        """The place of an event in the program's order."""
        return self.place[id(event)]

    def trains_between(self, start: int, end: int) -> bool:
        """Whether a backward pass lies between two places."""
        index = bisect.bisect_left(self._backward_at, start)
        return index < len(self._backward_at) and self._backward_at[index] < end

    def switch(self, forward: Forward, is_eval: bool) -> Mode | None:
        """The switch that gave a module the mode it has, or may have, in a forward pass."""
        for case in forward.modes:
            if isinstance(case, Const) and case.value is is_eval and case.trace is not None:
                return self.by_trace.get(case.trace)
        return None

    def handed_over(self, module: ObjectId, start: int, end: int) -> Iterator[Escape]:
        """Calls of code we cannot see that get a module, between two places."""
        for event in self.program.events[max(start, 0) : end]:
            if isinstance(event, Escape) and event.how == "call" and module in event.objects:
                yield event

    def backward_within(self, loops: tuple[Loop, ...]) -> bool:
        """Whether these loops train."""
        return any(_is_inside(event, loops) for event in self.backwards)


def _is_inside(event: Event, loops: tuple[Loop, ...]) -> bool:
    return tuple(loop.key for loop in event.loops[: len(loops)]) == tuple(loop.key for loop in loops)


def over_batches(forward: Forward) -> tuple[Loop, ...]:
    """The loops around a forward up to the one over batches: over data, or counted ones that cut a batch."""
    for index in range(len(forward.loops) - 1, -1, -1):
        kind = forward.loops[index].kind
        if kind in {"data", "framework"} or (kind in {"range", "while"} and forward.on_batch):
            return forward.loops[: index + 1]
    return ()


def shared(one: Event, other: Event) -> tuple[Loop, ...]:
    """The loops around both of two events."""
    nest: list[Loop] = []
    for mine, theirs in zip(one.loops, other.loops, strict=False):
        if mine.key != theirs.key:
            break
        nest.append(mine)
    return tuple(nest)


def reported_at(forward: Forward, loops: tuple[Loop, ...]) -> Site:
    """Where a reader of the loop sees the forward pass: the call in the loop that leads to it."""
    inside = forward.calls[loops[-1].depth :]
    return inside[0] if inside and loops[-1].kind != "framework" else forward.site


def called_module(program: Program, forward: Forward) -> str | None:
    """``model`` of the calls ``model(x)`` and ``model.forward(x)``, where it is a plain chain of names."""
    callee = program.sources.callee(forward.site)
    name = callee[1].removesuffix(".forward") if callee is not None else ""
    return name if name and all(part.isidentifier() for part in name.split(".")) else None


def before_loop(program: Program, forward: Forward, loops: Iterable[Loop], method: str) -> DraftFix | None:
    """A switch of the mode right before the loop over the batches, where loop and call stand in one function."""
    loop = next(reversed(list(loops)), None)
    name = called_module(program, forward)
    if loop is None or name is None or loop.site.path != forward.site.path or loop.depth != len(forward.calls):
        return None
    if not isinstance(program.sources.node(loop.site), (cst.For, cst.While)):
        return None
    edit = InsertStatement("before", loop.site.at, f"{name}.{method}()")
    return DraftFix(f"Call `{method}()` before the loop", "unsafe", (edit,))


def chain(*traces: Trace | None) -> list[Trace]:
    """Those that are there."""
    return [trace for trace in traces if trace is not None]
