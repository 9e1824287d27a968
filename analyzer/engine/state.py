"""The state of the program at one point: what every place holds.

A *place* is an object and a field of it: a variable is a field of its scope, ``self.z`` of the instance, ``x["k"]`` of
the dict, ``[]`` is the summary of a container's elements. So aliases work: two names hold the same object, and what is
stored through one is seen through the other. Facts of the engine's own (the grad mode, whether a graph has been freed,
train or eval mode) are places too, so that one join serves all.

Fields are kept by object. `fork` copies one map of objects; the fields of an object are copied when a path first writes
to it. So paths share what neither wrote, and a join looks only at objects whose fields are not the same map. What
finished modules hold is a frozen base that every state reads through.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import compress
from operator import is_not

from analyzer.engine.values import Const, Value, const, join

Place = tuple[object, str]

GRAD: Place = ("context", "grad")
GRAD_OFF = (GRAD[0], "is off")
FRESH: Place = ("gradients", "is fresh")
"""A backward pass has run and no step has applied it."""
SCALED: Place = ("gradients", "is scaled")
"""The last backward pass went through a loss that a gradient scaler multiplied, and nothing has divided since."""
"""Where a path keeps whether gradients are switched off."""
TRUE = const(True)
FALSE = const(False)


Fields = dict[str, Value]
_NONE: Fields = {}


class Base:
    """What finished modules hold: read through by every state, never forked."""

    __slots__ = ("by_object", "version")

    def __init__(self) -> None:
        self.by_object: dict[object, Fields] = {}
        self.version = 0
        """How many places have been added."""

    def put(self, place: Place, value: Value) -> None:
        """Add a place."""
        self.version += 1
        self.by_object.setdefault(place[0], {})[place[1]] = value


class State:
    """Places and what they hold. Written only by the path that owns it; `owned` are the objects whose fields no other
    path sees."""

    __slots__ = ("base", "held", "owned")

    def __init__(self, base: Base, held: dict[object, Fields] | None = None) -> None:
        self.base = base
        self.held: dict[object, Fields] = {} if held is None else held
        self.owned: set[object] = set()

    def fork(self) -> State:
        """A copy for another path."""
        self.owned = set()
        return State(self.base, self.held.copy())

    def become(self, other: State) -> None:
        """Go on from the end of another path, which ends here."""
        self.held, self.owned = other.held, other.owned

    def get(self, place: Place) -> Value | None:
        """What a place holds, or None."""
        obj, name = place
        fields = self.held.get(obj)
        if fields is not None:
            value = fields.get(name)
            if value is not None:
                return value
        fields = self.base.by_object.get(obj)
        return None if fields is None else fields.get(name)

    def fields(self, obj: object) -> list[tuple[str, Value]]:
        """Every field of an object and what it holds."""
        mine, below = self.held.get(obj, _NONE), self.base.by_object.get(obj, _NONE)
        return list(({**below, **mine} if below else mine).items())

    def values(self, obj: object) -> Collection[Value]:
        """What the fields of an object hold."""
        mine, below = self.held.get(obj), self.base.by_object.get(obj)
        if mine is None:
            return below.values() if below is not None else ()
        return {**below, **mine}.values() if below else mine.values()

    def objects_with(self, name: str) -> list[object]:
        """The objects that have a field of a name, those of finished modules aside."""
        return [obj for obj, fields in self.held.items() if name in fields]

    def freeze(self, before: State) -> None:
        """What was added since `before`, by a module that is finished, becomes part of the base."""
        for obj, fields in list(self.held.items()):
            known = before.held.get(obj, _NONE)
            if fields is not known:
                added = fields.keys() - known.keys()
                for name in [name for name in fields if name in added]:
                    self.base.put((obj, name), fields[name])
                self.drop(obj, added)

    def set(self, place: Place, value: Value) -> None:
        """A strong update: the place holds this and nothing else."""
        self.writable(place[0])[place[1]] = value

    def writable(self, obj: object) -> Fields:
        """The fields of an object, for this path alone."""
        if obj in self.owned:
            return self.held[obj]
        self.owned.add(obj)
        fields = self.held[obj] = self.held.get(obj, _NONE).copy()
        return fields

    def add(self, place: Place, value: Value) -> None:
        """A weak update: the place may hold this as well."""
        known = self.get(place)
        self.set(place, value if known is None else join(known, value))

    def flag(self, obj: object, name: str) -> bool | None:
        """An engine fact: yes, no, or None where paths differ. Absent is no."""
        value = self.get((obj, name))
        if value is None:
            return False
        return value.value is True if isinstance(value, Const) else None

    def drop(self, obj: object, names: Collection[str]) -> None:
        """Forget these fields of an object."""
        left = {name: value for name, value in self.held.get(obj, _NONE).items() if name not in names}
        if left:
            self.held[obj] = left
            self.owned.add(obj)
        else:
            self.clear(obj)

    def clear(self, obj: object) -> None:
        """Forget every field of an object."""
        self.held.pop(obj, None)
        self.owned.discard(obj)


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
    """The state of either of two paths. A place that only one of them knows keeps what it holds, but facts of the
    engine (fields named ``is …``) that only one has are no on the other."""
    one.owned, other.owned = set(), set()
    mine, theirs, below = one.held, other.held, one.base.by_object
    held = mine.copy()
    # objects by the thousand, most of them the same on both paths: told apart without a step in Python for each
    for obj in compress(theirs, map(is_not, theirs.values(), map(mine.get, theirs))):
        held[obj] = _merge_fields(mine.get(obj, _NONE), theirs[obj], below.get(obj, _NONE), adjust)
    if len(held) > len(theirs):
        for obj in mine.keys() - theirs.keys():
            held[obj] = _merge_fields(mine[obj], _NONE, below.get(obj, _NONE), adjust)
    return State(one.base, held)


def _merge_fields(mine: Fields, theirs: Fields, below: Fields, adjust: Callable[[Value, Value], Value]) -> Fields:
    """The fields of one object where paths meet: the very map `mine` where nothing is new."""
    new: Fields = {}
    for name in compress(theirs, map(is_not, theirs.values(), map(mine.get, theirs))):
        value, known = theirs[name], mine.get(name)
        other = known or below.get(name) or (FALSE if name.startswith("is ") else None)
        meet = join if name.startswith("is ") else adjust  # a flag has two values: nothing to widen
        met = value if other is None else meet(other, value)
        if met is not known:
            new[name] = met
    for name in mine.keys() - theirs.keys():
        other = below.get(name) or (FALSE if name.startswith("is ") else None)
        if other is not None:
            new[name] = join(mine[name], other)
    return {**mine, **new} if new else mine


def same(one: State, other: State) -> bool:
    """Whether two states say the same (traces aside)."""
    return one.held == other.held
