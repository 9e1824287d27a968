"""What happened, in program order, with the context it happened in. Rules read nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, NamedTuple

from analyzer.engine.trace import Site, Trace
from analyzer.engine.values import ObjectId, Tri, Value
from analyzer.records import dataclass


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop around an event: where it is and what it iterates over."""

    site: Site
    kind: Literal["data", "range", "while", "other", "framework"]
    trace: Trace
    part: str = ""
    """Keeps apart the loops of a framework that one place stands for."""
    run: int = 0
    """Keeps apart the runs of one loop, in a function that is called from several places."""
    depth: int = field(default=0, compare=False)
    """How many calls deep the loop is."""
    over: frozenset[ObjectId] = field(default=frozenset(), compare=False)
    """The objects it draws from."""
    bound: Value | None = field(default=None, compare=False)
    """How far it counts (``range(epochs)``)."""
    runs_over: Literal["", "tensor", "parameters", "range", "container"] = field(default="", compare=False)
    """What its iterations are: rows of a tensor, parameters, numbers, items of a container."""

    @property
    def key(self) -> tuple[Site, str, int]:
        """Which loop it is."""
        return self.site, self.part, self.run


class Guard(NamedTuple):
    """A condition around an event: which `if`, and which way it went. A branch that leaves (``continue``) guards the
    rest of its block; a call of one of several functions that a table holds guards what they do. `is_periodic`: it
    holds every n-th time (``step % n == 0``, a counter that is reset). `is_option`: a module asks for an option of its
    own (``if dropout > 0:``)."""

    site: Site
    taken: bool
    is_periodic: bool = False
    is_option: bool = False

    @property
    def other(self) -> Guard:
        """The same condition, gone the other way."""
        return self._replace(taken=not self.taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base: where, under which loops (outermost first), in which function, reached through which calls."""

    site: Site
    loops: tuple[Loop, ...]
    function: Site | None
    calls: tuple[Site, ...]
    guards: tuple[Guard, ...]
    trace: Trace
    order: int = 0
    framework: str = ""
    """The framework that does it without a line in the program; empty for what the program does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Event):
    """A module runs. `is_eval`: set to evaluation mode by code seen; `grad`: whether a graph is recorded."""

    module: ObjectId | None
    grad: Tri
    is_eval: Tri
    has_graph: Tri
    mode: Trace | None = None
    on_batch: bool = False
    inputs: frozenset[Site] = frozenset()
    """The forward passes whose graphs go into this one."""
    is_fed_itself: Tri = "no"
    """Whether what it gave in an earlier iteration of its loops goes in again with its graph, a hidden state; maybe,
    where its code was not seen: it may detach what it gives."""
    is_dry: bool = False
    """Whether random or constant numbers go in: the pass shows a shape, or a time."""
    modes: tuple[Value, ...] = ()
    """Every mode that the module may be in here, as far as code seen set it, each with the switch as its trace."""
    depends: Tri = "maybe"
    """Whether anything in the module minds the mode (dropout, batch norm, ``self.training``)."""
    is_frozen: Tri = "no"
    asleep: frozenset[ObjectId] = frozenset()
    """The module and those of its parts that came in evaluation mode and that nothing has switched since."""
    parts: frozenset[ObjectId] = frozenset()
    """The module and all that it holds; empty while no optimizer has been seen."""
    root: Site
    """The graph that begins here."""
    method: str = ""
    """The method that runs the module, where it is not called (``model.generate(x)``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(Run):
    """A module is called. `given`: the modules among its arguments (``encoder(embedder, x)``), which it may run."""

    given: frozenset[ObjectId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRun(Run):
    """A method of a module that was not read is called with tensors, gradients on: a forward pass by convention, of
    which only those ask that know it from a backward pass through it (``model.compute_loss(x)``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode(Event):
    """``eval()`` or ``train()`` of a module; of something unknown where `module` is None. The `trace` is that of the
    mode it sets."""

    module: ObjectId | None
    modules: frozenset[ObjectId]
    is_eval: Tri


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward(Event):
    """Gradients are computed from `roots`. `via`: containers and accumulators the loss came through, and its measures
    (`analyzer.engine.measures`). `by`: the kind of object whose ``backward`` is called; empty for one not known."""

    roots: frozenset[Site]
    via: frozenset[object]
    is_known: bool = True
    by: str = "Tensor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Event):
    """An optimizer step. `is_stale`: gradients of an earlier step are still in it."""

    optimizer: ObjectId | None
    modules: frozenset[ObjectId]
    is_stale: Tri
    born_in: tuple[Loop, ...]
    clears: bool = False
    is_scaled: Tri = "no"
    """The gradients are still multiplied by a loss scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clear(Event):
    """Gradients are reset, of an optimizer or of modules; both empty: of something we could not tell. `is_replaced`:
    they get other numbers (``p.grad = p.grad / n``), which a step may well apply."""

    optimizer: ObjectId | None = None
    modules: frozenset[ObjectId] = frozenset()
    is_replaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(Event):
    """A value is put into a longer-lived place. `is_carried`: the place lives on over iterations of a loop."""

    value: Value
    value_at: int
    into: object
    how: Literal["append", "item", "joined", "update", "attribute", "accumulate", "average"]
    is_carried: bool
    freed: Tri
    place: Trace
    held: tuple[Value, ...] = ()
    on_object: bool = False
    """Whether a running sum is an attribute, which outlives the call."""
    owner: ObjectId | None = None
    """The object whose attribute it is."""
    key: Value | None = None
    """Of an item, what it is put under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape(Event):
    """A value is handed to code we cannot see, or returned to a caller we cannot see."""

    objects: frozenset[ObjectId]
    roots: frozenset[Site]
    via: frozenset[object]
    how: Literal["call", "return", "log"]
    is_for_effect: bool = False
    """Whether the call stands alone: what it is for is what it does, not what it gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Event):
    """What holds graphs, or may, becomes an attribute of an object: other methods find it there."""

    name: str
    objects: frozenset[ObjectId]
    via: frozenset[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(Event):
    """A value reaches a loss. `expects` is what the loss wants (``logits``), `input` what it gets; `options` are the
    keyword arguments of the function, or of the module where it was made. `is_choice`: one of several losses is
    called, which want different things. `named_at`: the call that names the loss."""

    callee: str
    expects: str
    input: Value
    input_at: int
    target: Value | None
    options: Mapping[str, Value]
    is_choice: bool
    named_at: Site


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSeen(Event):
    """A call of a callee that the estimator asked for. `held`: what the lists and dicts among its arguments hold;
    `has_more`: others were unpacked from what is not known."""

    number: int
    callee: str
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...] = field(default=())
    receiver: Value | None = None
    held: Mapping[ObjectId, tuple[tuple[str, Value], ...]] = field(default_factory=dict, compare=False)
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit(Event):
    """A call gives a function of the tree an argument by a name that none of its parameters has: it stops there."""

    name: str
    to: str
