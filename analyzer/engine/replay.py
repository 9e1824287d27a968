"""Forward passes that need not be interpreted again: the passes of a loop come by the same call again and again.

A pass over a module's code is remembered with where it was made (call, calls in progress, loops, guards), what it was
given, what the module and its parts held, and what it did: events, writes, result. The same again gives the same again.
What else a forward pass reads (a global that a loop changes) is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING

from analyzer.engine.events import Event
from analyzer.engine.state import GRAD_OFF, Fields, State
from analyzer.engine.values import Ref, Value
from analyzer.records import dataclass, replace

if TYPE_CHECKING:
    from analyzer.engine.forward import Forwards
    from analyzer.engine.machine import Args

KEPT = 3
"""How many passes are remembered for one call in one context: training, evaluation, and one that loops change."""


@dataclass(frozen=True)
class Pass:
    """One interpreted pass. `before` are the fields that it depends on, `after` those it left changed."""

    given: tuple[object, ...]
    before: dict[object, Fields | None]
    after: dict[object, Fields | None]
    events: tuple[Event, ...]
    result: Value

    def fits(self, given: tuple[object, ...], state: State) -> bool:
        """Whether the same is given in the same state."""
        held = state.held
        return self.given == given and all(
            (known := held.get(obj)) is fields or known == fields for obj, fields in self.before.items()
        )


class Memory:
    """The passes of one program. `cuts` counts what was not followed to its end."""

    def __init__(self) -> None:
        self.passes: dict[object, list[Pass]] = {}
        self.cuts = 0


def replayed(machine: Forwards, ref: Ref, args: Args, at: int, state: State, interpret: Callable[[], Value]) -> Value:
    """The result of a pass: remembered, or interpreted now."""
    if not machine.loops:
        return interpret()  # nothing comes by here again
    context = (ref.obj, machine.site(at), machine.calls, machine.guards, machine.forwards, machine.passes)
    key = (context, tuple(loop.key for loop in machine.loops))
    given = (args.positional, args.keywords, state.get(GRAD_OFF))
    passes = machine.memory.passes.setdefault(key, [])
    for known in passes:
        if known.fits(given, state):
            for obj in known.before:
                state.look(obj)
            _again(machine, known, state)
            return known.result
    objects = _read(machine, ref, args, state)
    start, mark, cuts = state.fork(), len(machine.events), machine.memory.cuts
    result = interpret()
    if cuts == machine.memory.cuts:  # what was not followed to its end is tried again
        passes[:] = [_made(given, objects, start, state, tuple(machine.events[mark:]), result), *passes[: KEPT - 1]]
    return result


def _read(machine: Forwards, ref: Ref, args: Args, state: State) -> list[object]:
    """The objects whose fields a pass depends on: the module with its parts, and what it is given."""
    parts: set[object] = set(machine.with_parts(frozenset({ref.obj}), state))
    parts.update(case.obj for arg in args.all() for case in machine.deep(arg, state) if isinstance(case, Ref))
    return list(parts)


def _made(
    given: tuple[object, ...], objects: list[object], start: State, end: State, events: tuple[Event, ...], result: Value
) -> Pass:
    before: dict[object, Fields | None] = {obj: start.held.get(obj) for obj in objects}
    after: dict[object, Fields | None] = {}
    was, now = start.held, end.held
    # objects by the hundred, most of them as they were: told apart without a step in Python for each
    for obj in compress(now, map(is_not, now.values(), map(was.get, now))):
        before[obj], after[obj] = was.get(obj), now[obj]
    for obj in was.keys() - now.keys():
        before[obj], after[obj] = was[obj], None
    end.owned.clear()  # what is remembered is never written to in place
    return Pass(given, before, after, events, result)


def _again(machine: Forwards, known: Pass, state: State) -> None:
    for obj, fields in known.after.items():
        state.owned.discard(obj)
        if fields is None:
            state.held.pop(obj, None)
        else:
            state.held[obj] = fields
    machine.events.extend(
        replace(event, order=number) for number, event in enumerate(known.events, len(machine.events))
    )
