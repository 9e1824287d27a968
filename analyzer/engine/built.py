"""For the estimator: how the modules of the repository are constructed, with all that their constructors are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from analyzer.engine.values import Class, Func, ObjectId, Ref, Value
from analyzer.records import dataclass

if TYPE_CHECKING:
    from analyzer.engine.machine import Args, Machine
    from analyzer.engine.state import State

MODULES = "*.Module"
"""What is asked for among the wanted callees, so that constructions are noted."""
MAX_OBJECTS, MAX_FIELDS, MAX_MAKERS = 200, 400, 4
UNPACKED = "*"
"""The name, among the arguments of an object of a library, of those that were unpacked."""


@dataclass(frozen=True, slots=True)
class Built:
    """A module: its class, what its constructor is given, what the containers and plain objects among that hold, and
    the module whose constructor builds it."""

    cls: Class
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    held: Mapping[ObjectId, tuple[tuple[str, Value], ...]]
    parent: ObjectId | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class MadeBy:
    """A call of a function of the repository that returned a module, with what `Built` says of its arguments."""

    func: Func
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    held: Mapping[ObjectId, tuple[tuple[str, Value], ...]]


def note_maker(machine: Machine, func: Func, args: Args, result: Value, state: State) -> None:
    """Remember which call gave a module, the innermost first; one that was given the module did not make it."""
    case = result.cases[0] if len(result.cases) == 1 else None
    if not isinstance(case, Ref) or machine.obj(case).kind != "Module" or func.bound is not None or args.has_more:
        return
    given = (*args.positional, *args.keywords.values())
    if any(isinstance(each, Ref) and each.obj == case.obj for value in given for each in value.cases):
        return
    makers = machine.makers.setdefault(case.obj, [])
    if len(makers) < MAX_MAKERS:
        makers.append(MadeBy(func, args.positional, tuple(args.keywords.items()), held_by(machine, given, state)))


@contextmanager
def building(machine: Machine, cls: Class, ref: Ref, args: Args, state: State) -> Iterator[None]:
    """Around the run of a constructor."""
    if MODULES not in machine.wanted or machine.obj(ref).kind != "Module":
        yield
        return
    parent = machine.under_construction[-1] if machine.under_construction else None
    keywords = tuple(args.keywords.items())
    held = held_by(machine, (*args.positional, *args.keywords.values()), state)
    machine.built[ref.obj] = Built(cls, args.positional, keywords, held, parent, args.has_more)
    machine.under_construction.append(ref.obj)
    try:
        yield
    finally:
        machine.under_construction.pop()
        machine.as_built[ref.obj] = dict(state.fields(ref.obj))


def held_by(machine: Machine, given: tuple[Value, ...], state: State) -> dict[ObjectId, tuple[tuple[str, Value], ...]]:
    """The fields of every plain object that an argument leads to."""
    found: dict[ObjectId, tuple[tuple[str, Value], ...]] = {}
    pending = list(given)
    while pending and len(found) < MAX_OBJECTS:
        for case in pending.pop().cases:
            if isinstance(case, Ref) and case.obj not in found and machine.obj(case).kind != "Module":
                fields = tuple((name, value) for name, value in state.fields(case.obj) if not name.startswith("is "))
                found[case.obj] = fields[:MAX_FIELDS]
                pending += [value for _, value in fields[:MAX_FIELDS]]
    return found
