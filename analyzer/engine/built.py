"""For the estimator: how the modules of the repository are constructed, with all that their constructors are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from analyzer.engine.values import Class, ObjectId, Ref, Value
from analyzer.records import dataclass

if TYPE_CHECKING:
    from analyzer.engine.machine import Args, Machine
    from analyzer.engine.state import State

MODULES = "*.Module"
"""What is asked for among the wanted callees, so that constructions are noted."""
MAX_OBJECTS, MAX_FIELDS = 200, 400


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


@contextmanager
def building(machine: Machine, cls: Class, ref: Ref, args: Args, state: State) -> Iterator[None]:
    """Around the run of a constructor."""
    if MODULES not in machine.wanted or machine.obj(ref).kind != "Module":
        yield
        return
    parent = machine.under_construction[-1] if machine.under_construction else None
    keywords = tuple(args.keywords.items())
    held = _held(machine, (*args.positional, *args.keywords.values()), state)
    machine.built[ref.obj] = Built(cls, args.positional, keywords, held, parent, args.has_more)
    machine.under_construction.append(ref.obj)
    try:
        yield
    finally:
        machine.under_construction.pop()


def _held(machine: Machine, given: tuple[Value, ...], state: State) -> dict[ObjectId, tuple[tuple[str, Value], ...]]:
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
