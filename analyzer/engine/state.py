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

from analyzer.engine.values import Const, Ref, Value, const, join

Place = tuple[object, str]

GRAD: Place = ("context", "grad")
GRAD_OFF = (GRAD[0], "is off")
"""Where a path keeps whether gradients are switched off."""
FRESH: Place = ("gradients", "is fresh")
"""A backward pass has run and no step has applied it."""
SCALED: Place = ("gradients", "is scaled")
"""The last backward pass went through a loss that a gradient scaler multiplied, and nothing has divided since."""
STALE = "is stale"
"""Where a state dict keeps whether the weights have changed since it was asked for (`analyzer.engine.weights`)."""
TRUE = const(True)
FALSE = const(False)


Fields = dict[str, Value]
_NONE: Fields = {}


class Asked:
    """What was asked of the states of one pass over a loop, as far as another pass could answer otherwise: places that
    held nothing, objects of which every field was asked for, fields that were looked for in every object, and what
    places held where paths met of which one still held what the pass began with."""

    __slots__ = ("absent", "below", "everywhere", "head", "mixed", "read", "referring", "replaced", "whole")

    def __init__(self, head: dict[object, Fields] | None, below: dict[object, Fields]) -> None:
        self.head = head
        """What the pass begins with; None outside any loop, where nobody will want to know."""
        self.below = below
        self.absent: set[Place] = set()
        self.everywhere: set[str] = set()
        self.read: set[tuple[object, str, int]] = set()
        """Places and the `id` of what they held: what a pass began with, or paths met with, lives at least as long."""
        self.referring: set[object] = set()
        """Objects of which was asked which others they hold."""
        self.whole: dict[object, list[Fields]] = {}
        """Objects of which every field was asked for, and the fields they had."""
        self.mixed: dict[Place, list[Value]] = {}
        self.replaced: dict[Place, Value | None] = {}
        """What took the place of nothing; None where that was different things at different times."""

    def mix(self, obj: object, name: str, one: Value | None, other: Value | None, met: Value) -> None:
        """Note what a place holds where two paths meet, where one of them still holds what the pass began with: if both
        have put something else there, it is the same whatever that was."""
        if self.head is None:
            return
        place = obj, name
        known = self.mixed.get(place)
        if known is not None:
            if met is not known[-1]:
                known.append(met)
            return
        below = self.below.get(obj, _NONE).get(name)
        first = self.head.get(obj, _NONE).get(name) or below
        if (one or below) is first or (other or below) is first:
            self.mixed[place] = [met]

    def look(self, obj: object, fields: Fields) -> None:
        """Note that all fields of an object were asked for. They must not be written to any more."""
        if self.head is None:
            return
        known = self.whole.get(obj)
        if known is None:
            self.whole[obj] = [fields]
        elif known[-1] is not fields:
            known.append(fields)

    def replace(self, place: Place, value: Value) -> None:
        """Note what takes the place of nothing."""
        if self.head is None:
            return
        known = self.replaced.setdefault(place, value)
        if known is not value and known != value:
            self.replaced[place] = None

    def absorb(self, inner: Asked, made: set[object]) -> None:
        """What a loop inside asked for was asked in the pass around it too, of what the pass had not `made` before."""
        if self.head is None or inner.head is None:
            return
        self.absent.update([place for place in inner.absent if place[0] not in made] if made else inner.absent)
        self.everywhere |= inner.everywhere
        self.read |= inner.read
        for obj, looks in inner.whole.items():
            if obj not in made:
                for fields in looks:
                    self.look(obj, fields)
        self.referring |= inner.referring - made if made else inner.referring
        for place, value in inner.replaced.items():
            if value is None:
                self.replaced[place] = None
            else:
                self.replace(place, value)
        for (obj, name), values in inner.mixed.items():
            began = inner.head.get(obj, _NONE).get(name)
            for met in values:
                self.mix(obj, name, began, began, met)

    def is_answered_alike(self, head: State, following: State, are_gone: Callable[[set[object]], bool]) -> bool:
        """Whether another pass, from `following`, gets the answers that the pass from `head` got: nobody asked for what
        is new or other in it. `are_gone`: whether nobody has these objects any more."""
        below = head.base.by_object
        stale: set[object] = set()
        for obj, fields in following.held.items():
            known = head.held.get(obj, _NONE)
            if known is not fields:
                for name in compress(fields, map(is_not, fields.values(), map(known.get, fields))):
                    before, value = known.get(name) or below.get(obj, _NONE).get(name), fields[name]
                    if before != value:
                        if name == STALE:  # each step of an optimizer asks for it, and sets it
                            stale.add(obj)
                        elif not self._is_place_alike(obj, name, before, value):
                            return False
        return not stale or are_gone(stale)

    def _is_place_alike(self, obj: object, name: str, before: Value | None, value: Value) -> bool:
        if before is None:
            if name[:3] == "is " and name != "is eval" and value == FALSE and value.trace is None:
                return True  # what an absent one says
            if (obj, name) in self.absent or name in self.everywhere:
                return False
        elif (obj, name, id(before)) in self.read:
            return False
        if obj in self.referring and (_refers(value) or (before is not None and _refers(before))):
            return False
        if self.replaced.get((obj, name), value) != value:
            return False
        mixed, read = self.mixed.get((obj, name), ()), self.read
        if not all(met == value or (obj, name, id(met)) not in read for met in mixed):
            return False
        below = self.below.get(obj, _NONE).get(name)
        for fields in self.whole.get(obj, ()):
            held = fields.get(name) or below
            if held is before or (held != value and any(held is met for met in mixed)):
                return False
        return True


def _refers(value: Value) -> bool:
    """Whether a value may be an object."""
    return any(isinstance(case, Ref) for case in value.cases)


class Base:
    """What finished modules hold: read through by every state, never forked."""

    __slots__ = ("asked", "by_object", "version")

    def __init__(self) -> None:
        self.by_object: dict[object, Fields] = {}
        self.asked = Asked(None, self.by_object)
        self.version = 0
        """How many places have been added."""

    def put(self, place: Place, value: Value) -> None:
        """Add a place."""
        self.version += 1
        self.by_object.setdefault(place[0], {})[place[1]] = value


class State:
    """Places and what they hold. Written only by the path that owns it; `owned` are the objects whose fields no other
    path sees; `made`, those that began without fields in the innermost loop's pass."""

    __slots__ = ("base", "held", "made", "owned")

    def __init__(self, base: Base, held: dict[object, Fields] | None = None, made: set[object] | None = None) -> None:
        self.base = base
        self.made: set[object] = set() if made is None else made
        self.held: dict[object, Fields] = {} if held is None else held
        self.owned: set[object] = set()

    def fork(self) -> State:
        """A copy for another path."""
        self.owned = set()
        return State(self.base, self.held.copy(), self.made.copy() if self.made else None)

    def become(self, other: State) -> None:
        """Go on from the end of another path, which ends here."""
        self.held, self.owned, self.made = other.held, other.owned, other.made

    def get(self, place: Place) -> Value | None:
        """What a place holds, or None."""
        obj, name = place
        base = self.base
        fields = self.held.get(obj)
        value = None if fields is None else fields.get(name)
        if value is None and (fields := base.by_object.get(obj)) is not None:
            value = fields.get(name)
        asked = base.asked
        if asked.head is not None:
            if value is not None:
                asked.read.add((obj, name, id(value)))
            elif obj not in self.made:
                asked.absent.add(place)
        return value

    def given_up(self, place: Place, value: Value) -> Value | None:
        """What a place holds that is about to hold `value`. Where that is nothing, a pass that finds this very value
        there does the same."""
        obj, name = place
        is_absent = name not in self.held.get(obj, _NONE) and name not in self.base.by_object.get(obj, _NONE)
        if is_absent:
            if obj not in self.made:
                self.base.asked.replace(place, value)
            return None
        return self.get(place)

    def look(self, obj: object) -> None:
        """Note that all fields of an object are asked for."""
        self.owned.discard(obj)
        self.base.asked.look(obj, self.held.get(obj, _NONE))

    def fields(self, obj: object) -> list[tuple[str, Value]]:
        """Every field of an object and what it holds."""
        mine, below = self.held.get(obj, _NONE), self.base.by_object.get(obj, _NONE)
        if obj not in self.made:
            self.owned.discard(obj)
            self.base.asked.look(obj, mine)
        return list(({**below, **mine} if below else mine).items())

    def values(self, obj: object) -> Collection[Value]:
        """What the fields of an object hold, for one who minds only which objects these are."""
        if obj not in self.made:
            self.base.asked.referring.add(obj)
        mine, below = self.held.get(obj), self.base.by_object.get(obj)
        if mine is None:
            return below.values() if below is not None else ()
        return {**below, **mine}.values() if below else mine.values()

    def holders(self, name: str) -> list[tuple[object, Value]]:
        """As `objects_with`, and what they hold, for one who minds only what this pass has put there."""
        return [(obj, fields[name]) for obj, fields in self.held.items() if name in fields]

    def objects_with(self, name: str) -> list[object]:
        """The objects that have a field of a name, those of finished modules aside."""
        self.base.asked.everywhere.add(name)
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
        """A weak update: the place may hold this as well. Nobody is told what it held, so that another pass that finds
        there what this one leaves does the same."""
        obj, name = place
        fields = self.held.get(obj)
        known = fields.get(name) if fields is not None else None
        if known is None and (fields := self.base.by_object.get(obj)) is not None:
            known = fields.get(name)
        met = value if known is None else join(known, value)
        if obj not in self.made:
            self.base.asked.mix(obj, name, known, known, met)
        self.writable(obj)[name] = met

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
        self.made.add(obj)


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
    asked = one.base.asked if one.base.asked.head is not None else None
    # objects by the thousand, most of them the same on both paths: told apart without a step in Python for each
    for obj in compress(theirs, map(is_not, theirs.values(), map(mine.get, theirs))):
        held[obj] = _merge_fields(mine.get(obj, _NONE), theirs[obj], below.get(obj, _NONE), adjust, obj, asked)
    if len(held) > len(theirs):
        for obj in mine.keys() - theirs.keys():
            held[obj] = _merge_fields(mine[obj], _NONE, below.get(obj, _NONE), adjust, obj, asked)
    return State(one.base, held, one.made & other.made)


def _merge_fields(
    mine: Fields,
    theirs: Fields,
    below: Fields,
    adjust: Callable[[Value, Value], Value],
    obj: object,
    asked: Asked | None,
) -> Fields:
    """The fields of one object where paths meet: the very map `mine` where nothing is new. `asked` notes what meets."""
    new: Fields = {}
    mixed = asked.mixed if asked is not None else None
    began = asked.head.get(obj, _NONE) if asked is not None and asked.head is not None else _NONE
    for name in compress(theirs, map(is_not, theirs.values(), map(mine.get, theirs))):
        value, known, under = theirs[name], mine.get(name), below.get(name)
        is_flag = name[:3] == "is "
        other = known or under or (FALSE if is_flag else None)
        meet = join if is_flag else adjust  # a flag has two values: nothing to widen
        met = value if other is None else meet(other, value)
        if mixed is not None:  # as `Asked.mix` does, without a call for each field
            seen = mixed.get((obj, name))
            if seen is not None:
                if met is not seen[-1]:
                    seen.append(met)
            else:
                first = began.get(name) or under
                if value is first or (known or under) is first:
                    mixed[obj, name] = [met]
        if met is not known:
            new[name] = met
    for name in mine.keys() - theirs.keys():
        other = below.get(name) or (FALSE if name[:3] == "is " else None)
        held = met = mine[name]
        if other is not None:
            met = new[name] = join(met, other)
        if asked is not None:
            asked.mix(obj, name, held, None, met)
    return {**mine, **new} if new else mine


def same(one: State, other: State) -> bool:
    """Whether two states say the same (traces aside)."""
    return one.held == other.held
