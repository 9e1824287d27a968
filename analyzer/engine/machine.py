"""What the parts of the interpreter share: objects, loops, guards, calls in progress, events, budget.

`Machine` knows the context. The parts build on it in this order, each adding one kind of construct: `Lookups`,
`Operations`, `Containers`, `Expressions` (evaluate.py); `Effects`, `Rows`, `Forwards`, `Calls`; `Assignments`,
`Control`, `Functions`, `Imports`, `Interpreter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from analyzer.engine.device_events import GraphLeft, Sync
from analyzer.engine.events import Event, Forward, Guard, Loop, Step, Store
from analyzer.engine.replay import Memory
from analyzer.engine.state import Fields, State
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.values import Class, Func, ObjectId, Ref, Tensor, Unknown, Value
from analyzer.knowledge.schema import Knowledge
from analyzer.records import dataclass
from analyzer.syntax import ir

if TYPE_CHECKING:
    from analyzer.engine.built import Built, MadeBy
    from analyzer.project import Project

_NEW = tuple.__new__
MAX_DEPTH = 14
FILES_BUDGET = 10_000
"""Steps for the bodies of all the files that one target imports: a large tree must not use up those of the target."""
ASKED_FOR = frozenset({"eval", "weights"})
"""The ways to be made of which somebody asks whether anything was made so."""
CONTAINERS = ("list", "dict", "set", "deque", "Data")
SEVERAL, MAYBE = "*", "…"
"""How the names of layers of a ``Sequential`` begin that stand for some number of layers, or may not be there."""
SEQUENTIAL, LAYERS = "torch.nn.Sequential", "is sequential"
"""The field of an instance of a class ``Block(nn.Sequential)`` for the layers that it gives the base class."""
LAST = "is last"
"""The field of a list for what it holds last."""
MAX_ITEMS = 1_000
"""Of a tuple made of others, and of unpacked arguments: what is put together twice, again and again, has no end."""
MAX_APART = 64
"""So many items of a list are told apart."""


class OutOfBudget(Exception):
    """The step budget of an entry is spent; what was seen so far stands."""


@dataclass(slots=True)
class Obj:
    """What stays true of an object: its kind (a knowledge name such as ``Optimizer`` or ``list``), its class if the
    repository defines it, under which loops and how deep inside a ``forward`` it was born."""

    kind: str
    cls: Class | None
    loops: tuple[Loop, ...]
    trace: Trace
    forwards: int = 0
    modules: frozenset[ObjectId] = frozenset()
    name: str = ""
    element: Value | None = None
    arguments: tuple[tuple[str, Value], ...] = ()
    is_bounded: bool = False
    call: int | None = None
    held: tuple[Ref, ...] | None = None
    """The objects among its arguments, once somebody asked."""
    born: str = ""
    """``eval``: a module that comes in evaluation mode. Else, where the text does not show it being made: ``argument``
    of a caller (``called``: all that is known is that it is called in an evaluation), or result of code ``unseen``.
    An optimizer of ``tensors`` that belong to no module."""


@dataclass(slots=True)
class Frame:
    """One function activation."""

    scope: ObjectId
    path: str
    node: ir.FunctionDef | ir.Lambda | None
    parent: ObjectId | None
    owner: Class | None = None
    this: Value | None = None
    uses: dict[str, frozenset[str]] = field(default_factory=dict)
    returns: list[tuple[Value, State]] = field(default_factory=list)
    yields: list[tuple[Value, State]] = field(default_factory=list)
    breaks: list[list[State]] = field(default_factory=list)
    continues: list[list[State]] = field(default_factory=list)
    inner: list[Func] = field(default_factory=list)
    """The functions it defines."""


@dataclass(frozen=True, slots=True)
class Later:
    """An import of one name that was postponed: ``from module import name`` in a file, or, without a name,
    ``import module as bound``."""

    path: str
    module: str
    level: int
    name: str
    at: int
    bound: str | None = None


class Machine(ABC):
    """The context of an interpretation."""

    statement: Site | None = None
    """The call whose result the statement in progress throws away."""
    is_dry = False
    """Inside a method of a module that was given random or constant numbers."""

    def __init__(self, project: Project, knowledge: Knowledge, budget: int) -> None:  # noqa: PLR0915  one line each
        self.project = project
        self.knowledge = knowledge
        self.steps_left = budget
        self.files_left = FILES_BUDGET
        self.objects: list[Obj] = []
        self.interned: dict[object, ObjectId] = {}
        self.parents: dict[ObjectId, ObjectId | None] = {}
        self.modules: dict[str, ObjectId] = {}
        self.events: list[Event] = []
        self.early: list[Event] = []
        """What postponed imports did: it comes before all else."""
        self.later: dict[ObjectId, dict[str, Later]] = {}
        """The imports of a scope that wait for somebody who wants what they bind."""
        self.loops: tuple[Loop, ...] = ()
        self.guards: tuple[Guard, ...] = ()
        self.calls: tuple[Site, ...] = ()
        self.runs: dict[tuple[Site, ...], int] = {(): 0}
        self.frames: list[Frame] = []
        self.choices = 0
        """How many calls in progress are calls of one of several losses that want different inputs."""
        self.forwards = self.passes = self.loops_outside = 0
        """How many forward passes are in progress, and calls of other methods of modules (``encode``), parts of one."""
        self.class_uses: dict[ir.ClassDef, dict[str, frozenset[str]]] = {}
        self.called: set[tuple[str, int]] = set()
        self.first_calls: list[tuple[str, int]] = []
        """The functions in the order of their first calls."""
        self.too_large: dict[str, None] = {}
        """What of the target was not followed to its end, by name; empty for its body."""
        self.transparent: dict[object, bool] = {}
        """Decorators that give back what they are given, and whether they call it."""
        self.heads: dict[object, State] = {}
        self.constants: dict[ir.Constant, Value] = {}
        self.changed: dict[Site, set[tuple[Loop, ...]]] = {}
        """The loops under which tensors were changed in place, by where they were made."""
        self.emptied: dict[ObjectId, set[tuple[Loop, ...]]] = {}
        self.pass_hooks: dict[ObjectId, dict[int, Value]] = {}
        """What runs after each forward pass of a module, by the place where it was registered."""
        self.followers: set[ObjectId] = set()
        self.made_by: dict[ObjectId, Site] = {}
        """The calls of functions that were not read which gave what is used as an object, given none before."""
        """Modules whose weights are set from those of others: targets, teachers, averages."""
        self.switches: dict[Trace, int] = {}
        self.lacking = ""
        """The container of which the branch around says that it lacks a key."""
        """Every switch of a mode so far and its number."""
        self.reads_mode: set[ObjectId] = set()
        """Modules whose code asks for ``self.training``."""
        self.parts: dict[frozenset[ObjectId], tuple[int, dict[ObjectId, tuple[Obj, Fields | None]]]] = {}
        """The parts of modules as they were last looked up."""
        self.optional_layers: set[ObjectId] = set()
        """Layers that a module has only under one of its options, which was not known."""
        self.minding: dict[ObjectId, tuple[ObjectId, ...]] = {}  # the parts that surely mind the mode, by module
        self.births: set[str] = set()
        """In which of the ways that are `ASKED_FOR` anything was made."""
        self.unused: dict[tuple[str, int], tuple[Func, State]] = {}
        """Functions inside others that nobody has called so far, and what their surroundings held at the end."""
        self.memory = Memory()
        self.target = ""
        """The file that is analysed: functions of other files get less of the budget."""
        self.argv: Sequence[tuple[str, Any]] = ()
        self.wanted: frozenset[str] = frozenset()
        self.built: dict[ObjectId, Built] = {}
        self.commands: dict[tuple[str, int], str] = {}
        """Functions that a library runs with the words of the command line, and which kind of library."""
        self.given_names: dict[str, Value] = {}
        """Values that a call gave to a name of a library (``absl.flags.FLAGS.batch_size``)."""
        self.makers: dict[ObjectId, list[MadeBy]] = {}
        self.as_built: dict[ObjectId, dict[str, Value]] = {}
        self.under_construction: list[ObjectId] = []
        self.frozen_under: dict[Site, tuple[Guard, ...]] = {}
        """Where parameters were frozen, and under which conditions."""
        self.thawed: dict[ObjectId, set[tuple[Site, bool]]] = {}
        """Where gradients were asked for the parameters of a module, and whether these were frozen by then."""
        self.has_optimizer = self.is_cut = False
        """Whether an optimizer has been made; whether some part was not followed to its end, so that what is absent may
        be there."""

    # --- context ----------------------------------------------------------------------------------------------

    @property
    def in_pass(self) -> bool:
        """Whether code of a module runs: what it keeps within one call, it keeps for one forward pass."""
        return self.forwards + self.passes > 0

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def site(self, at: int) -> Site:
        return _NEW(Site, (self.frames[-1].path, at, 0))  # what `Site(path, at)` does, without a call in Python

    def root(self, at: int) -> Site:
        """The graph that begins at a call here, reached through these calls."""
        return Site(self.frames[-1].path, at, self.run_number)

    @property
    def run_number(self) -> int:
        """Which run of the code this is: one for each chain of calls that leads here."""
        return self.runs.setdefault(self.calls, len(self.runs))

    def spend(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise OutOfBudget

    def emit(self, kind: Any, at: int, trace: Trace | None, **facts: Any) -> None:
        frame = self.frames[-1]
        path, node = frame.path, frame.node
        site = _NEW(Site, (path, at, 0))
        self.events.append(
            kind(
                site=site,
                loops=self.loops,
                function=_NEW(Site, (path, node.at, 0)) if node is not None else None,
                calls=self.calls,
                guards=self.guards,
                trace=trace or start(site, "here"),
                order=len(self.events),
                **facts,
            )
        )

    def leaves_graph(self, inputs: Iterable[Value], at: int) -> None:
        """Something without a graph is made of these."""
        cases = [case for value in inputs for case in value.cases if isinstance(case, (Tensor, Unknown))]
        roots = frozenset(root for case in cases for root in case.roots)
        if roots and not self.in_pass:
            self.emit(GraphLeft, at, None, roots=roots)

    def note_sync(self, value: Value, how: str, at: int) -> None:
        """The host reads a value: it waits where that is a tensor on an accelerator, or where a model is."""
        for case in value.cases if self.loops else ():
            if isinstance(case, Tensor) and case.device in {"accelerator", "model"}:
                self.emit(Sync, at, case.trace, how=how, value=case)
                return

    def note_change(self, value: Value) -> None:
        """A tensor is changed in place."""
        for case in value.cases:
            if isinstance(case, Tensor) and case.birth:
                self.changed.setdefault(case.birth[0], set()).add(self.loops)

    def cut_off(self, since: int, unfinished: tuple[Loop, ...] | None = None) -> None:
        """What was not followed to its end shows no absence: of the events from `since` on, those that accuse because
        something else does not happen are dropped; given `unfinished` loops, only inside of these."""
        self.is_cut = True
        self.memory.cuts += 1
        keys = {loop.key for loop in unfinished or ()}

        def stays(event: Event) -> bool:
            if not isinstance(event, (Forward, Step, Store)):
                return True
            return unfinished is not None and keys.isdisjoint(loop.key for loop in event.loops)

        self.events[since:] = [event for event in self.events[since:] if stays(event)]

    def create(self, key: object, at: int, kind: str, note: str, **facts: Any) -> Ref:
        """The object allocated here. The same place under the same calls gives the same object again, newly born."""
        gap: Gap | None = facts.pop("gap", None)
        trace: Trace = facts.pop("trace", None) or start(self.site(at), note, gap)
        whole = (self.frame.path, at, key, self.calls[-3:])
        obj = self.interned.get(whole)
        facts.setdefault("call", self.interned.get(("call", self.site(at), self.calls)))
        record = Obj(kind, facts.pop("cls", None), self.loops, trace, self.forwards, **facts)
        if record.born in ASKED_FOR:
            self.births.add(record.born)
        if obj is None:
            obj = len(self.objects)
            self.interned[whole] = obj
            self.objects.append(record)
        else:
            self.objects[obj] = record
        return Ref(obj, trace=trace)

    def obj(self, ref: Ref) -> Obj:
        return self.objects[ref.obj]

    def new_scope(self, key: object, parent: ObjectId | None) -> ObjectId:
        whole = ("scope", key, self.calls[-3:])
        scope = self.interned.get(whole)
        if scope is None:
            scope = len(self.objects)
            self.interned[whole] = scope
            self.objects.append(Obj("scope", None, self.loops, start(Site("", 0), "scope")))
        self.parents[scope] = parent
        return scope

    def is_module(self, value: Value) -> bool:
        return isinstance(value, Ref) and self.objects[value.obj].kind == "Module"

    # --- what the parts above add -----------------------------------------------------------------------------

    @abstractmethod
    def run(self, block: ir.Block, state: State | None) -> State | None: ...

    @abstractmethod
    def activation(self, func: Func) -> Frame: ...

    @abstractmethod
    def evaluate(self, expr: ir.Expr, state: State) -> Value: ...

    @abstractmethod
    def call(self, callee: Value, args: Args, at: int, state: State) -> Value: ...

    @abstractmethod
    def run_function(self, func: Func, args: Args, at: int, state: State) -> Value: ...

    @abstractmethod
    def load_module(self, path: str, state: State) -> ObjectId | None: ...

    @abstractmethod
    def imported(self, scope: ObjectId, name: str, state: State) -> Value | None:
        """What a postponed import of a scope binds to a name, if there is one."""

    def member_of(self, scope: ObjectId, name: str, state: State) -> Value | None:
        """A name of a module."""
        value = state.get((scope, name))
        return self.imported(scope, name, state) if value is None and scope in self.later else value

    @abstractmethod
    def assign(self, target: ir.Expr, value: Value, state: State, at: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Args:
    """Evaluated arguments: positional values, keywords, the nodes they came from, and whether any was unpacked."""

    positional: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)
    nodes: tuple[ir.Expr | None, ...] = ()
    keyword_nodes: dict[str, ir.Expr] = field(default_factory=dict)
    has_more: bool = False
    unpacked: tuple[tuple[int, Value], ...] = ()
    """What was unpacked without its items being known, and before which positional argument."""

    def at(self, index: int, name: str = "") -> Value | None:
        """The argument at a position or under a keyword."""
        if name and name in self.keywords:
            return self.keywords[name]
        return self.positional[index] if 0 <= index < len(self.positional) else None

    def node(self, index: int, name: str = "") -> ir.Expr | None:
        """The expression of `at`."""
        if name and name in self.keyword_nodes:
            return self.keyword_nodes[name]
        return self.nodes[index] if 0 <= index < len(self.nodes) else None

    def all(self) -> tuple[Value, ...]:
        """Every argument."""
        if not self.keywords and not self.unpacked:
            return self.positional
        return (*self.positional, *self.keywords.values(), *(value for _, value in self.unpacked))


def unseen(reason: str, site: Site, gap: Gap = Gap.UNSEEN, *, is_given: bool = False) -> Unknown:
    """A value the text does not show."""
    return Unknown(reason, gap, is_given=is_given, trace=start(site, reason, gap))
