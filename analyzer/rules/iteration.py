"""One iteration of a training loop: which events belong to it, in which order, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Iterable

from analyzer.engine.events import Clear, Event, Guard, Loop, Step
from analyzer.engine.program import Program


def nest_of(event: Event) -> tuple[Loop, ...]:
    """The loops of an event without the innermost ones that go over something else than data, steps or epochs
    (``for optimizer in optimizers:``): those are parts of one iteration."""
    loops = event.loops
    while loops and loops[-1].kind == "other":
        loops = loops[:-1]
    return loops


def in_one_iteration(program: Program, one: Event, other: Event) -> bool:
    """Whether two events are at home in the same innermost loop; where there is none, in the same run: what was read
    without its callers (the methods of a trainer) says nothing of the order in which these call it."""
    nest = [loop.key for loop in nest_of(one)]
    return nest == [loop.key for loop in nest_of(other)] and (bool(nest) or is_one_run(program, one, other))


def is_one_run(program: Program, one: Event, other: Event) -> bool:
    """Whether the same entry, or the body of the file, does both."""
    entries = {event.calls[0] if event.calls and event.calls[0] in program.entries else None for event in (one, other)}
    return len(entries) == 1


def exclude(one: Event, other: Event) -> bool:
    """Whether two events stand in different branches of one condition."""
    return any(guard.other in other.guards for guard in one.guards)


def extra_guards(event: Event, than: Event) -> list[Guard]:
    """The conditions under which an event happens and the other does not ask for."""
    return [guard for guard in event.guards if guard not in than.guards]


def is_within_guards(inner: Event, outer: Event) -> bool:
    """Whether an event always happens when `inner` does, as far as conditions go."""
    return all(guard in inner.guards for guard in outer.guards)


def clears(clear: Clear, step: Step) -> bool:
    """Whether the gradients that a step applies are certainly among those that are reset."""
    if clear.optimizer is not None and clear.optimizer == step.optimizer:
        return True
    return bool(step.modules) and step.modules <= clear.modules


def may_clear(program: Program, clear: Clear, step: Step) -> bool:
    """Whether they may be."""
    return clears(clear, step) or not program.disjoint(clear.modules, step.modules)


def between(events: Iterable[Event], first: Event, last: Event) -> list[Event]:
    """The events after one and before another."""
    return [event for event in events if first.order < event.order < last.order]
