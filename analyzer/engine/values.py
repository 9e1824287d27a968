"""Abstract values: what an expression may be, as finitely many facts.

An atom is one case; a `Union` keeps up to `MAX_CASES` cases apart (a common supertype would lose facts and cause false
findings). Equality ignores traces: two values that say the same are the same, and a join keeps the better witness.
`Unknown` is a value with a reason, never "anything goes".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Literal

from analyzer.engine.trace import Gap, Site, Trace, better
from analyzer.records import dataclass, replace
from analyzer.syntax import ir

MAX_CASES = 8
MAX_ROOTS = 12
MAX_HEIGHT = 6
"""Of values in values: a loop that wraps what it wrapped before (``node = (node, left)``) doubles it each time."""
MAX_WEIGHT = 256
"""Atoms in a value that is higher than a table."""
_TABLE_HEIGHT = 2
ObjectId = int
Tri = Literal["yes", "no", "maybe"]
Shape = Literal["", "column", "flat", "one more"]
TRI: dict[bool | None, Tri] = {True: "yes", False: "no", None: "maybe"}
Device = Literal["", "host", "accelerator", "model"]
"""Where a tensor is: not known, in the host's memory for sure, moved to an accelerator, or where a model is."""
Birth = tuple[Site, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Value:
    """Base of the atoms and of `Union`."""

    trace: Trace | None = field(default=None, compare=False, kw_only=True)

    @property
    def cases(self) -> tuple[Value, ...]:
        """The atoms this value may be."""
        return (self,)


@dataclass(frozen=True, slots=True)
class Unknown(Value):
    """Something the text does not show. `roots`: tensors with a graph went into it, so it may carry theirs."""

    reason: str = ""
    gap: Gap = Gap.UNSEEN
    roots: frozenset[Site] = frozenset()
    via: frozenset[object] = frozenset()
    called: str = field(default="", compare=False)
    """The function that was not read and gave this; one of a method begins with a dot."""
    is_given: bool = field(default=False, compare=False)
    """Whether an unseen caller, or whoever starts the program, gave it."""


@dataclass(frozen=True, slots=True)
class Const(Value):
    """A Python constant. `kind` keeps 1, 1.0 and True apart. `overrides` is what it replaced (a default)."""

    value: object
    kind: str = ""
    overrides: tuple[Const, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Scalar(Value):
    """A Python number, string or other plain value of unknown content: it never carries a graph. `is_off`: an option
    that is zero, empty or false unless somebody sets it."""

    kind: str = "number"
    is_off: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Activation:
    """The normalising function a tensor came out of, where, and the node of its input there, if it is an argument;
    `is_method`: it is the receiver."""

    name: str
    site: Site = field(compare=False)
    input_at: ir.NodeId | None = field(compare=False)
    is_method: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Tensor(Value):
    """A tensor, or an opaque structure of tensors (`is_opaque`: a model's output object, a batch).

    `roots` are the sites of the forward passes whose graph it holds; `via` the containers and accumulators it came
    through; `param_of` the modules whose parameters it is. `device` is where it is, as far as that is known; `birth` is
    where and under which loops a tensor in the host's memory was made; `is_synthetic`: of random or constant numbers.
    `shape`: one number per sample in a column, or flat (`analyzer.engine.shapes`).
    """

    graph: Tri = "no"
    roots: frozenset[Site] = frozenset()
    via: frozenset[object] = frozenset()
    activation: Activation | None = None
    param_of: frozenset[ObjectId] = frozenset()
    is_opaque: bool = False
    is_batch: bool = False
    device: Device = ""
    birth: Birth | None = None
    is_synthetic: bool = False
    shape: Shape = ""


@dataclass(frozen=True, slots=True)
class Parameter(Tensor):
    """An ``nn.Parameter`` itself: what is computed from it is a plain tensor again."""


@dataclass(frozen=True, slots=True)
class Composite(Value):
    """An atom that holds other values: at most `MAX_HEIGHT` levels of them, so that comparing two takes no time.

    Without a limit a program builds a tree whose size is beyond all memory out of shared parts, in thirty lines."""

    height: int = field(default=1, init=False, compare=False, repr=False, kw_only=True)
    weight: int = field(default=1, init=False, compare=False, repr=False, kw_only=True)

    def measure(self, parts: tuple[Value, ...]) -> bool:
        """Take the sizes from those of the parts; whether they are beyond the limits."""
        height, weight = 0, 1
        for part in parts:
            for case in part.cases:
                if isinstance(case, Composite):
                    height = max(height, case.height)
                    weight += case.weight
                else:
                    weight += 1
        object.__setattr__(self, "height", height + 1)
        object.__setattr__(self, "weight", weight)
        return height >= MAX_HEIGHT or (weight > MAX_WEIGHT and height >= _TABLE_HEIGHT)


@dataclass(frozen=True, slots=True)
class Tuple(Composite):
    """A tuple with known items."""

    items: tuple[Value, ...]

    def __post_init__(self) -> None:
        if self.measure(self.items):
            object.__setattr__(self, "items", tuple(map(flattened, self.items)))
            self.measure(self.items)


@dataclass(frozen=True, slots=True)
class Ref(Value):
    """An object with identity: its facts live in the state, under its id."""

    obj: ObjectId


@dataclass(frozen=True, slots=True)
class Func(Value):
    """A function or lambda of the repository with the scope it closes over, perhaps bound to an instance."""

    node: ir.FunctionDef | ir.Lambda
    path: str
    scope: ObjectId
    bound: Value | None = None
    owner: Value | None = field(default=None, compare=False)
    wrappers: tuple[Value, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Class(Value):
    """A class of the repository; `scope` holds its attributes."""

    node: ir.ClassDef
    path: str
    scope: ObjectId
    bases: tuple[Value, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class PyModule(Value):
    """A module of the repository."""

    path: str
    scope: ObjectId


@dataclass(frozen=True, slots=True)
class External(Value):
    """Something outside the repository, by its qualified name (``torch.nn.functional.softmax``)."""

    name: str


@dataclass(frozen=True, slots=True)
class Method(Composite):
    """A method that the engine or a knowledge row implements, bound to its receiver."""

    receiver: Value
    name: str

    def __post_init__(self) -> None:
        if isinstance(self.receiver, (Composite, Union)) and self.measure((self.receiver,)):
            object.__setattr__(self, "receiver", flattened(self.receiver))
            self.measure((self.receiver,))


@dataclass(frozen=True, slots=True)
class Partial(Composite):
    """``functools.partial(func, *args, **keywords)``."""

    func: Value
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]

    def __post_init__(self) -> None:
        if self.measure((self.func, *self.args, *(value for _, value in self.keywords))):
            object.__setattr__(self, "func", flattened(self.func))
            object.__setattr__(self, "args", tuple(map(flattened, self.args)))
            object.__setattr__(self, "keywords", tuple((name, flattened(value)) for name, value in self.keywords))
            self.measure((self.func, *self.args, *(value for _, value in self.keywords)))


@dataclass(frozen=True, slots=True)
class Parameters(Value):
    """An iterable over the parameters of modules; with `is_named`, over pairs of a name and a parameter."""

    modules: frozenset[ObjectId]
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class Stream(Composite):
    """An iterator whose every element is `element` (a generator, ``enumerate``, a dataset). `of` are the objects it
    draws from, where these are known."""

    element: Value
    of: frozenset[ObjectId] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        if self.measure((self.element,)):
            object.__setattr__(self, "element", flattened(self.element))
            self.measure((self.element,))


@dataclass(frozen=True, slots=True)
class Counting(Stream):
    """``range(…)``: how far it counts, where that is one number."""

    bound: Value | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Union(Value):
    """One of several atoms, no two of them equal. Their order does not matter."""

    members: tuple[Value, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Union) or len(self.members) != len(other.members):
            return False
        return self.members == other.members or frozenset(self.members) == frozenset(other.members)

    def __hash__(self) -> int:
        return hash(frozenset(self.members))

    @property
    def cases(self) -> tuple[Value, ...]:
        return self.members


_WITH_KIN = frozenset([Tensor, Parameter, Unknown, Tuple, Parameters, Stream, Counting])
"""The kinds of atoms of which two that are not equal may be kin (`_kin`)."""


def const(value: object, trace: Trace | None = None, overrides: tuple[Const, ...] = ()) -> Const:
    """A constant with its kind filled in."""
    return Const(value, type(value).__name__, overrides, trace=trace)


def option(default: Const) -> Scalar:
    """A value that is set from outside, or else the default: a rule must hold for both."""
    return Scalar("option", not default.value, trace=default.trace)


def join(one: Value, other: Value) -> Value:
    """Either of two values: commutative and monotone; the better witness survives where both say the same."""
    if one is other:
        return one
    if type(one) is Union:
        if _has_all(one.members, other.members if type(other) is Union else (other,)):
            return Union(
                one.members
            )  # as `union` would, without a look at each: a pass is told by what is not the same
    elif type(one) is type(other) and one == other:
        return _witness(one, other)
    return union((one, other))


def _has_all(members: tuple[Value, ...], others: tuple[Value, ...]) -> bool:
    """Whether all of some cases are among others, the very same ones."""
    known = set(map(id, members))
    return all(map(known.__contains__, map(id, others)))


def union(values: Iterable[Value]) -> Value:
    """One of several values; more than `MAX_CASES` widen."""
    given = values if type(values) is tuple else tuple(values)
    if len(given) == 1:
        return given[0]
    found: list[Value] = []
    for value in given:  # what `value.cases` gives, without a call in Python
        if type(value) is Union:
            found += value.members
        else:
            found.append(value)
    cases = tuple(found)
    if len(cases) != len(set(map(type, cases))):  # else the types alone tell that no two cases are alike
        merged: dict[Value, Value] = {}
        for case in cases:
            known = merged.setdefault(case, case)  # one look for its hash, which is most of what this costs
            if known is not case:
                merged[case] = _witness(known, case)
        cases = _merge_kin(tuple(merged.values()))
    if len(cases) == 1:
        return cases[0]
    if not cases:
        return Unknown("nothing")
    if len(cases) > MAX_CASES:
        return widened(cases)
    return Union(cases)


def _merge_kin(cases: tuple[Value, ...]) -> tuple[Value, ...]:
    """Cases, no two of them equal, that differ only in where they came from are one: tensors alike in kind, unknowns,
    tuples of one length."""
    related = [case for case in cases if type(case) in _WITH_KIN]
    if len(related) < 2 or len(related) == len(set(map(type, related))):
        return cases
    groups: dict[object, Value] = {}
    for case in cases:
        key = _kin(case) if type(case) in _WITH_KIN else id(case)
        known = groups.setdefault(key, case)
        if known is not case:
            groups[key] = _blend(known, case)
    return tuple(groups.values())


def _kin(case: Value) -> object:
    if isinstance(case, Tensor):
        return (type(case), case.graph, case.activation, bool(case.param_of), case.is_opaque, case.is_batch)
    if isinstance(case, Unknown):
        return (Unknown, case.gap)
    if isinstance(case, Tuple):
        return (Tuple, len(case.items))
    return type(case)


def _blend(one: Value, other: Value) -> Value:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return replace(
            one,
            roots=limited(one.roots | other.roots),
            via=one.via | other.via,
            param_of=one.param_of | other.param_of,
            device=one.device if one.device == other.device else "",
            birth=one.birth if one.birth == other.birth else None,
            is_synthetic=one.is_synthetic and other.is_synthetic,
            shape=one.shape if one.shape == other.shape else "",
            trace=witness(one, other),
        )
    if isinstance(one, Unknown) and isinstance(other, Unknown):
        roots, via = limited(one.roots | other.roots), one.via | other.via
        first = min(one, other, key=lambda case: case.reason)
        return replace(first, gap=one.gap, roots=roots, via=via, trace=witness(one, other))
    if isinstance(one, Tuple) and isinstance(other, Tuple):
        items = tuple(join(left, right) for left, right in zip(one.items, other.items, strict=True))
        return Tuple(items, trace=witness(one, other))
    if isinstance(one, Parameters) and isinstance(other, Parameters):
        is_named = one.is_named and other.is_named
        return Parameters(one.modules | other.modules, is_named, trace=witness(one, other))
    if isinstance(one, Stream) and isinstance(other, Stream):
        return Stream(join(one.element, other.element), one.of | other.of, trace=witness(one, other))
    return _witness(one, other)


def limited(roots: frozenset[Site]) -> frozenset[Site]:
    """At most `MAX_ROOTS` roots: the earliest."""
    return roots if len(roots) <= MAX_ROOTS else frozenset(sorted(roots)[:MAX_ROOTS])


def witness(one: Value, other: Value) -> Trace | None:
    """The better evidence of two values that say the same."""
    if one.trace is None or other.trace is None:
        return one.trace or other.trace
    return better(one.trace, other.trace)


def _witness(one: Value, other: Value) -> Value:
    return one if witness(one, other) is one.trace else other


def widened(cases: Iterable[Value]) -> Value:
    """What is left of too many cases: their tensors and roots, constants as scalars, the rest unknown."""
    kept: list[Value] = []
    roots: frozenset[Site] = frozenset()
    for case in cases:
        if isinstance(case, (Const, Scalar)):
            kept.append(scalar_of(case))
        elif isinstance(case, (Tensor, Unknown)):
            kept.append(case)
            roots |= case.roots
        else:
            kept.append(Unknown("too many possible values", trace=case.trace))
    result = _merge_kin(tuple(dict.fromkeys(kept)))
    if len(result) > MAX_CASES:
        return Unknown("too many possible values", roots=limited(roots))
    return result[0] if len(result) == 1 else Union(result)


def scalar_of(value: Value) -> Value:
    """A constant without its content; None and strings keep apart from numbers."""
    if isinstance(value, Const) and value.value is not None:
        return Scalar("str" if isinstance(value.value, str) else "number", trace=value.trace)
    return value


def flattened(value: Value) -> Value:
    """The value with what holds others as unknown, which still has the graphs that are seen in it."""
    return union(_hollow(case) if isinstance(case, Composite) else case for case in value.cases)


def _hollow(case: Composite) -> Value:
    inside = [atom for atom in nested(case, MAX_HEIGHT) if isinstance(atom, (Tensor, Unknown))]
    roots = frozenset(root for atom in inside for root in atom.roots)
    via = frozenset(tag for atom in inside for tag in atom.via)
    return Unknown("values nest too deeply", roots=limited(roots), via=via, trace=case.trace)


def without_constants(value: Value) -> Value:
    """What a loop-carried constant becomes: a scalar."""
    return union(scalar_of(case) for case in value.cases)


def nested(value: Value, depth: int = 3) -> Iterator[Value]:
    """The atoms of a value and of the tuples in it."""
    for case in value.cases:
        yield case
        if isinstance(case, Tuple) and depth:
            for item in case.items:
                yield from nested(item, depth - 1)
        elif isinstance(case, Stream) and depth:
            yield from nested(case.element, depth - 1)


def references(value: Value) -> Iterator[ObjectId]:
    """The objects that a value is, or that are in it."""
    for case in value.cases:
        if isinstance(case, Ref):
            yield case.obj
        elif isinstance(case, Tuple):
            for item in case.items:
                yield from references(item)
        elif isinstance(case, Stream):
            yield from references(case.element)
            yield from case.of
        elif isinstance(case, Method):
            yield from references(case.receiver)
        elif isinstance(case, Func) and case.bound is not None:
            yield from references(case.bound)
        elif isinstance(case, Partial):
            for part in (case.func, *case.args, *(item for _, item in case.keywords)):
                yield from references(part)


def drawn_from(value: Value) -> frozenset[ObjectId]:
    """The objects that iterating over a value draws from."""
    found: frozenset[ObjectId] = frozenset()
    for case in value.cases:
        if isinstance(case, Ref):
            found |= {case.obj}
        elif isinstance(case, Stream):
            found |= case.of
        elif isinstance(case, Unknown):
            found |= {tag for tag in case.via if isinstance(tag, int)}
    return found


def truth(value: Value) -> bool | None:
    """Whether a condition holds, where that is known."""
    answers = {_truth(case) for case in value.cases}
    return answers.pop() if len(answers) == 1 else None


def _truth(case: Value) -> bool | None:
    if isinstance(case, Const):
        return bool(case.value)
    if isinstance(case, Tuple):
        return bool(case.items)
    if isinstance(case, (Func, Class, PyModule)):
        return True
    return None
