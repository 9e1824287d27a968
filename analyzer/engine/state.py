"""The state of the program at one point: what every place holds.

A *place* is an object and a field of it: a variable is a field of its scope, ``self.z`` of the instance, ``x["k"]`` of
the dict, ``[]`` is the summary of a container's elements. So aliases work: two names hold the same object, and what is
stored through one is seen through the other. Facts of the engine's own (the grad mode, whether a graph has been freed,
train or eval mode) are places too, so that one join serves all.

No two paths share a mutable map: `fork` copies it (a few hundred entries), a join keeps entries that are the same
object on both sides as they are. What finished modules hold is a frozen base that every state reads through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from analyzer.engine.values import Const, ObjectId, Value, const, join

Place = tuple[object, str]

GRAD: Place = ("context", "grad")
TRUE = const(True)
FALSE = const(False)


class Base:
    """What finished modules hold: read through by every state, never forked."""

    __slots__ = ("by_object",)

    def __init__(self) -> None:
        self.by_object: dict[object, dict[Place, Value]] = {}

    def get(self, place: Place) -> Value | None:
        """What a place holds, or None."""
        found = self.by_object.get(place[0])
        return found.get(place) if found is not None else None

    def put(self, place: Place, value: Value) -> None:
        """Add a place."""
        self.by_object.setdefault(place[0], {})[place] = value


class State:
    """Places and what they hold. Written only by the path that owns it."""

    __slots__ = ("base", "held")

    def __init__(self, base: Base, held: dict[Place, Value] | None = None) -> None:
        self.base = base
        self.held: dict[Place, Value] = {} if held is None else held

    def fork(self) -> State:
        """A copy for another path."""
        return State(self.base, self.held.copy())

    def get(self, place: Place) -> Value | None:
        """What a place holds, or None."""
        value = self.held.get(place)
        return self.base.get(place) if value is None else value

    def fields(self, obj: object) -> list[tuple[str, Value]]:
        """Every field of an object and what it holds."""
        found = {place[1]: value for place, value in self.base_of.get(obj, {}).items()}
        found.update({place[1]: value for place, value in self.held.items() if place[0] == obj})
        return list(found.items())

    @property
    def base_of(self) -> dict[object, dict[Place, Value]]:
        """The frozen base by object."""
        return self.base.by_object

    def freeze(self, before: set[Place]) -> None:
        """What a finished module holds becomes part of the base."""
        for place in self.held.keys() - before:
            self.base.put(place, self.held.pop(place))

    def set(self, place: Place, value: Value) -> None:
        """A strong update: the place holds this and nothing else."""
        self.held[place] = value

    def add(self, place: Place, value: Value) -> None:
        """A weak update: the place may hold this as well."""
        known = self.get(place)
        self.held[place] = value if known is None else join(known, value)

    def flag(self, obj: object, name: str) -> bool | None:
        """An engine fact: yes, no, or None where paths differ. Absent is no."""
        value = self.get((obj, name))
        if value is None:
            return False
        return value.value is True if isinstance(value, Const) else None

    def drop(self, obj: ObjectId, names: Iterable[str]) -> None:
        """Forget the fields of a scope that is gone."""
        for name in names:
            self.held.pop((obj, name), None)


def merge(states: Iterable[State | None]) -> State | None:
    """The state where paths meet; None is a path that does not get here."""
    live = [state for state in states if state is not None]
    if not live:
        return None
    result = live[0]
    for other in live[1:]:
        result = merge_two(result, other)
    return result


def merge_two(one: State, other: State, adjust: Callable[[Value, Value], Value] = join) -> State:
    """The state of either of two paths. A place that only one of them knows keeps what it holds."""
    held = one.held.copy()
    base = one.base
    for place, value in other.held.items():
        mine = held.get(place)
        if mine is value:
            continue
        if mine is None:
            mine = base.get(place)
            if mine is None and place[1].startswith("is "):
                mine = FALSE
        held[place] = value if mine is None else adjust(mine, value)
    if len(held) != len(other.held):
        _absent_flags(held, other)
    return State(base, held)


def _absent_flags(held: dict[Place, Value], other: State) -> None:
    """Facts of the engine (fields named ``is …``) that only one path has are no on the other."""
    for place in held.keys() - other.held.keys():
        known = other.base.get(place)
        if known is not None or place[1].startswith("is "):
            held[place] = join(held[place], known or FALSE)


def same(one: State, other: State) -> bool:
    """Whether two states say the same (traces aside)."""
    return one.held == other.held
