"""One iteration of a training loop: which events belong to it, in which order, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Iterable

from analyzer.engine.events import Clear, Event, Guard, Loop, Step
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import walk


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


def may_be_one_run(program: Program, one: Event, other: Event) -> bool:
    """Whether what was seen may happen in one run: not in two functions of which nothing calls both. Methods share the
    object, and the body of the file is run before any of them. Nor in two branches of one condition."""
    if exclude(one, other):
        return False
    entries = [event.calls[0] for event in (one, other) if event.calls and event.calls[0] in program.entries]
    functions = [words(program).node(site) for site in entries]
    are_free = all(isinstance(node, ir.FunctionDef) and _is_free(node) for node in functions)
    if len(entries) == 2 and not are_free and _are_strangers(program, *entries):
        return False
    return len(entries) < len((one, other)) or entries[0] == entries[1] or not are_free


def _are_strangers(program: Program, one: Site, other: Site) -> bool:
    """Whether two methods are of two classes of a file, neither of which names the other."""
    unit = program.unit(one.path) if one.path == other.path else None
    classes = [node for node in (unit.body if unit is not None else ()) if isinstance(node, ir.ClassDef)]
    mine, theirs = (
        next((cls for cls in classes if any(getattr(each, "at", None) == site.at for each in cls.body)), None)
        for site in (one, other)
    )
    if mine is None or theirs is None or mine is theirs:
        return False
    named = {cls.name: {part.id for part in walk((cls,), True) if isinstance(part, ir.Name)} for cls in (mine, theirs)}
    return theirs.name not in named[mine.name] and mine.name not in named[theirs.name]


def _is_free(node: ir.FunctionDef) -> bool:
    return not node.params or node.params[0].name not in {"self", "cls"}


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
