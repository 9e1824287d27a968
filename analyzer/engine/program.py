"""A program under analysis: its files as IR, its entries run, and the events that rules ask about."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, TypeVar

from analyzer.engine import frozen
from analyzer.engine.events import Backward, Clear, Escape, Event, Forward, Loop, Step, Store
from analyzer.engine.hooks import framework_of, is_manual, loops_around, updates
from analyzer.engine.interpret import Interpreter
from analyzer.engine.machine import Frame, OutOfBudget
from analyzer.engine.own_ways import uses_layers
from analyzer.engine.registration import note_unregistered
from analyzer.engine.sources import Sources
from analyzer.engine.state import GRAD_OFF, TRUE, Base, State
from analyzer.engine.trace import Site
from analyzer.engine.unread_layers import note_unread_layers
from analyzer.engine.values import Class, External, Func, ObjectId, Ref, Value
from analyzer.findings import Skipped
from analyzer.knowledge.ownership import Framework, Hook
from analyzer.knowledge.schema import Knowledge
from analyzer.project import Project
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, of_type, walk

E = TypeVar("E", bound=Event)
BUDGET = 50_000
"""Steps for one target file with everything it reaches; no entry of it gets more than `ENTRY_BUDGET`."""
_GRAD_WORDS = re.compile(rb"no_grad|inference_mode|set_grad_enabled")
ENTRY_BUDGET = 25_000
_LONGEST_NOTE = 300
_NAMED = 3
"""So many functions are named in a note."""

_KNOWN_BASES = ("torch.nn.", "builtins.", "abc.", "typing.", "sklearn.", "gym.", "gymnasium.", "enum.", "collections.")
"""Classes that know nothing of training: their methods call none that trains or evaluates in a context of their own."""


class Program(Interpreter):
    """Everything seen from one target file: module body first, then what nobody called."""

    def __init__(self, project: Project, knowledge: Knowledge, sources: Sources) -> None:
        super().__init__(project, knowledge, BUDGET)
        self.sources = sources
        self.skipped: list[Skipped] = []
        self.budget_left = BUDGET
        self.starts: Container[int] | None = None
        self.is_over = False
        """Whether all that happens has happened: from then on `of` and `within` look each question up once."""
        self.by_kind: dict[type, list[Any]] = {}
        self.by_type: dict[type, list[Any]] = {}
        self.by_nest: dict[type, dict[object, list[Any]]] = {}
        self.places: dict[int, int] = {}
        self.roots_of: dict[ObjectId | None, set[Site]] | None = None
        self.entries: dict[Site, str] = {}
        self.open_entries: set[Site] = set()
        """Entries of classes that inherit from code that was not read, which may call them."""
        self.own_entries: set[Site] = set()
        """Entries that are methods of a module: its mode is the business of whoever holds it."""
        self.with_layers: dict[tuple[Class, tuple[Value, ...]], bool] = {}
        """Which classes may have weights; a class is the same whatever its bases turned out to be."""
        self.answers: dict[type, object] = {}
        """What rules worked out together from the events, by kind."""

    def unit(self, path: str) -> ir.Unit | None:
        return self.sources.unit(path)

    def run_target(self, path: str, starts: Container[int] | None = None) -> None:
        """Interpret one file and everything it reaches. `starts`: the functions to start at; without, all of them."""
        self.starts = starts
        self.run_rest(path, self.run_main(path))
        if self.too_large:
            self.skipped.append(Skipped(path, _too_large(self.too_large), partial=True))
        self.events[:0] = self.early
        self.is_over = True

    def forget(self) -> None:
        """The last word: what rules worked out refers to the program, and a circle would outlive its use while the
        garbage collector rests."""
        self.answers.clear()

    def run_main(self, path: str) -> State:
        """Run a file as ``python FILE`` does."""
        state = State(Base())
        self.target = path
        unit = self.unit(path)
        if unit is None:
            return state
        scope = self.new_scope(("module", path), None)
        self.modules[path] = scope
        self.guarded(path, lambda: self.run_module(unit, scope, state, is_main=True))
        self.reset()
        return state

    def run_rest(self, path: str, state: State) -> None:
        """The functions and methods of a file that nobody called."""
        scope = self.modules.get(path)
        state.freeze(State(state.base))
        cases = [case for _, held in state.fields(scope) for case in held.cases]
        called = self.names_called(path)
        for case in sorted(cases, key=lambda case: isinstance(case, Func) and getattr(case.node, "name", "") in called):
            self.noted(path, lambda case=case: self.run_uncalled(case, path, state))  # type: ignore[misc]
            self.reset()
        for key, (func, around) in list(self.unused.items()):
            if key not in self.called and self.is_start(func):
                self.run_entry(func, None, around)

    def is_start(self, func: Func) -> bool:
        """Whether a function is run where nobody calls it."""
        return self.starts is None or func.path != self.target or func.node.at in self.starts

    def names_called(self, path: str) -> frozenset[str]:
        """The last names of what functions of a file call: callers run first, so that their context is known."""
        unit = self.unit(path)
        uses = unit.uses if unit is not None else {}
        return frozenset(name.rsplit(".", 1)[-1] for name, how in uses.items() if "()" in how)

    def run_uncalled(self, case: Value, path: str, state: State) -> None:
        if isinstance(case, Func) and case.path == path and isinstance(case.node, ir.FunctionDef):
            if (path, case.node.at) not in self.called and self.is_start(case):
                self.run_entry(case, None, state)
        elif isinstance(case, Class) and case.path == path:
            self.run_class(case, state)

    def run_class(self, cls: Class, state: State) -> None:
        """The methods that nobody called, on an instance made by an unseen caller."""
        methods = [
            method
            for _, held in state.fields(cls.scope)
            for method in held.cases
            if isinstance(method, Func) and isinstance(method.node, ir.FunctionDef)
        ]
        starts = [method for method in methods if self.is_start(method)]
        framework = framework_of(self.knowledge, cls) if starts else None
        methods = methods if framework is not None else starts
        hooks = framework.hooks if framework is not None else {}
        first = framework.first if framework is not None else ()
        todo = [m for m in methods if (m.path, m.node.at) not in self.called or name_of(m) in hooks]
        if not todo:
            return
        todo += [m for m in methods if name_of(m) in first and m not in todo]
        init = self.class_attribute(cls, "__init__", state)  # gives `self` what the other methods find in it
        todo += [m for m in init.cases if isinstance(m, Func) and m not in todo] if init is not None else []
        self.frames.append(Frame(cls.scope, cls.path, None, None, cls))
        this = self.create(("instance of", cls.node.at), cls.node.at, self.kind_of(cls), "an instance", cls=cls)
        self.frames.pop()
        called = self.names_called(cls.path)
        todo.sort(key=lambda method: _order(name_of(method), called, first))
        for method in todo:
            name, hook = name_of(method), hooks.get(name_of(method))
            if hook is not None and framework is not None:
                self.run_hook(method, this, framework, hook, state)
            elif (method.path, method.node.at) not in self.called or name in ("__init__", *first):
                self.run_entry(method, this, state, stays=name in first)
                if name == "__init__":
                    self.frames.append(Frame(cls.scope, cls.path, None, None, cls))
                    note_unregistered(self, cls, this, state)
                    note_unread_layers(self, cls, this, state)
                    if self.frozen_under:
                        frozen.note_kept(self, cls, this, state)
                    self.frames.pop()

    def run_hook(self, func: Func, this: Ref, framework: Framework, hook: Hook, state: State) -> None:
        """A method that a framework calls in its loop, with what the framework does around it."""
        start, cls = state.fork(), self.obj(this).cls
        assert cls is not None
        self.loops = loops_around(self, cls, hook)
        if hook.is_evaluation:
            start.set(GRAD_OFF, TRUE)
            self.switch(this, "is eval", TRUE, start)
        uses = frozenset(self.uses_in_class(cls))
        owns = bool(hook.gives) and not is_manual(self, framework, this, start, uses)
        modules = self.with_parts(frozenset({this.obj}), start) if framework.kind == "Module" else frozenset()

        def hooked() -> None:
            self.frames.append(Frame(func.scope, func.path, None, None))
            if owns:
                updates(self, framework, modules, func.node.at, is_after=False)
            self.entry(func, this, start, hook.params, owns and hook.gives == "loss")
            if owns:
                updates(self, framework, modules, func.node.at, is_after=True)
            self.frames.pop()

        mark, loops = len(self.events), self.loops
        is_whole = self.guarded(func.path, hooked, name_of(func))
        if is_whole and any(_adds_to_object(event) for event in self.events[mark:]):
            del self.events[mark:]  # the next step, which finds what this one has added up
            self.reset()
            self.loops = loops
            self.guarded(func.path, hooked, name_of(func))
        self.reset()

    def reset(self) -> None:
        """Back to no context at all."""
        self.frames.clear()
        self.loops, self.calls, self.guards, self.forwards, self.passes, self.is_dry = (), (), (), 0, 0, False

    def run_entry(self, func: Func, this: Value | None, state: State, *, stays: bool = False) -> None:
        """`stays`: the methods that come after find what this one left."""
        name = name_of(func)
        site = Site(func.path, func.node.at)
        self.entries[site] = name
        if isinstance(this, Ref) and self.is_open(self.obj(this).cls):
            self.open_entries.add(site)
        if this is not None and self.is_module(this):
            self.own_entries.add(site)
        self.forwards, self.loops_outside = 1 if this is not None and name == "forward" else 0, 0
        start = state.fork()
        self.guarded(func.path, lambda: self.entry(func, this, start), name)
        if this is not None and (stays or name == "__init__"):
            state.become(start)
        self.reset()

    def guarded(self, path: str, action: Callable[[], object], name: str = "") -> bool:
        """One of the named boundaries: what breaks on one entry, by its name, is noted, the others run. Whether none
        did."""
        allowed = min(self.budget_left, ENTRY_BUDGET)
        self.steps_left = allowed
        is_whole = self.noted(path, action, name)
        self.budget_left -= allowed - max(0, self.steps_left)
        return is_whole

    def noted(self, path: str, action: Callable[[], object], name: str = "") -> bool:
        """Do something; what breaks is noted. Whether nothing did."""
        mark, calls = len(self.events), len(self.first_calls)
        try:
            action()
        except OutOfBudget:
            self.too_large[name] = None
            self.uncall(calls)
        except RecursionError:
            problem = "a part of this file nests too deeply to follow; the rest is reported"
            self.skipped.append(Skipped(path, problem, partial=True))
        except Exception as error:  # noqa: BLE001  boundary per entry: one bug of ours must not hide other findings
            problem = f"internal error in the analysis: {type(error).__name__}: {error}"
            self.skipped.append(Skipped(path, problem[:_LONGEST_NOTE], partial=True))
        else:
            return True
        finally:
            self.frames.clear()
        self.cut_off(mark, self.loops)
        return False

    # --- what rules ask ---------------------------------------------------------------------------------------

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of one kind, in program order."""
        if not self.is_over:
            return (event for event in self.events if isinstance(event, kind))
        known = self.by_kind.get(kind)
        if known is None:
            known = self.by_kind[kind] = self._of_kind(kind)
        return iter(known)

    def _of_kind(self, kind: type[E]) -> list[E]:
        if not self.by_type:
            for event in self.events:
                self.by_type.setdefault(type(event), []).append(event)
        found = [events for each, events in self.by_type.items() if issubclass(each, kind)]
        return found[0] if len(found) == 1 else [event for event in self.events if found and isinstance(event, kind)]

    def within(self, kind: type[E], loops: tuple[Loop, ...]) -> Iterator[E]:
        """The events of one kind that happen inside these loops."""
        nest = nest_key(loops)
        if not self.is_over:
            return (event for event in self.of(kind) if nest_key(event.loops[: len(nest)]) == nest)
        nests = self.by_nest.get(kind)
        if nests is None:
            nests = self.by_nest[kind] = {}
            for event in self.of(kind):
                keys = nest_key(event.loops)
                for depth in range(len(keys) + 1):
                    nests.setdefault(keys[:depth], []).append(event)
        return iter(nests.get(nest, ()))

    def place(self, event: Event) -> int:
        """The place of an event in the program's order, once all has happened."""
        if not self.places:
            self.places = {id(each): index for index, each in enumerate(self.events)}
        return self.places[id(event)]

    def roots_through(self, modules: Iterable[ObjectId]) -> frozenset[Site]:
        """The graphs that begin in forward passes of these modules."""
        if self.roots_of is None:
            self.roots_of = {}
            for forward in self.of(Forward):
                self.roots_of.setdefault(forward.module, set()).add(forward.root)
        return frozenset().union(*(self.roots_of.get(module, ()) for module in modules))

    def nests_with(self, events: Iterable[Event]) -> frozenset[tuple[object, ...]]:
        """The nests of loops (`nest_key`) inside of which any of these events happens."""
        nests = {event.loops for event in events}
        return frozenset(nest_key(nest[:depth]) for nest in nests for depth in range(len(nest) + 1))

    def consumed(self, tag: object) -> Backward | None:
        """A backward pass through what a container or accumulator holds."""
        return next((event for event in self.of(Backward) if tag in event.via), None)

    def escapes(self, tag: object) -> Escape | None:
        """An unseen call that a container, or a tensor out of it, is handed to."""
        return next((event for event in self.of(Escape) if tag in event.objects or tag in event.via), None)

    def is_open(self, cls: Class | None, depth: int = 0) -> bool:
        """Whether a class inherits from code that was not read and that no knowledge row speaks of."""
        for case in (case for base in (cls.bases if cls is not None else ()) for case in base.cases):
            if isinstance(case, Class):
                if depth < 10 and self.is_open(case, depth + 1):
                    return True
            elif not isinstance(case, External) or not case.name.startswith(_KNOWN_BASES):
                return True
        return False

    def names_entry(self, event: Event, words: re.Pattern[bytes]) -> bool:
        """Whether an event was reached through an entry that another file of the tree names, beside these words: its
        caller, which was not seen, may do what they say."""
        name = self.entries.get(event.calls[0]) if event.calls else None
        if name == "__call__":  # said by no caller, who makes an instance
            name = self.class_around(event.calls[0]) or name
        return name is not None and any(self.project.callers(name, event.calls[0].path, words))

    def class_around(self, site: Site) -> str:
        """The name of the class that a method stands in."""
        unit = self.sources.unit(site.path)
        for node in walk(unit.body, into_functions=False) if unit is not None else ():
            if isinstance(node, ir.ClassDef) and any(getattr(each, "at", None) == site.at for each in node.body):
                return node.name
        return ""

    def is_called_without_grad(self, event: Event) -> bool:
        """Whether an event was reached through an entry that another file of the tree names, where gradients are
        switched off: its caller, which was not seen, may do so around the call."""
        return self.names_entry(event, _GRAD_WORDS)

    def runs_under_unseen_base(self, event: Event) -> bool:
        """Whether an event was reached through a method of a class whose base was not read: code of the base may call
        it, in a context of its own."""
        return bool(event.calls) and event.calls[0] in self.open_entries

    def uses_layers(self, cls: Class) -> bool:
        """As `own_ways.uses_layers`: rules ask for each forward pass, it walks through all of the class."""
        key = (cls, cls.bases)
        if key not in self.with_layers:
            self.with_layers[key] = uses_layers(cls)
        return self.with_layers[key]

    def has_parameters(self, forward: Forward) -> bool:
        """Whether the module of a forward is more than a loss or a layer without parameters."""
        return forward.module is not None and self.may_be_trained(forward.module)

    def may_be_trained(self, module: ObjectId) -> bool:
        """Whether a module is more than a loss or a layer without parameters."""
        obj = self.objects[module]
        row = self.knowledge.row(obj.name)
        if obj.cls is not None and not self.uses_layers(obj.cls):
            return False
        return row is None or (row.graph == "parameters" or row.effect == "sequential")

    def function_around(self, site: Site) -> ir.FunctionDef | None:
        """The function whose text a place is in: the innermost one."""
        unit = self.sources.unit(site.path)
        if unit is None:
            return None
        known = _nested(unit)
        index: int | None = bisect_right(known, site.at, key=lambda each: each[0].at) - 1
        while index is not None and index >= 0:
            node, around = known[index]
            if site.at in extent(node):
                return node
            index = around
        return None

    def is_kept(self, site: Site) -> bool:
        """Whether the value of an expression replaces an attribute (``self.table = self.table.to(device)``)."""
        function = self.function_around(site)
        nodes = walk(function.body, into_functions=False) if function is not None else ()
        return any(
            isinstance(node, ir.Assign)
            and node.value is not None
            and node.value.at == site.at
            and any(isinstance(target, ir.Attribute) for target in node.targets)
            for node in nodes
        )

    def is_left_early(self, loop: Loop) -> bool:
        """Whether a loop has a ``break`` in it."""
        node = self.statement_of(loop)
        inside = walk(node.body, into_functions=False) if node is not None else ()
        return any(isinstance(each, ir.Jump) and each.kind == "break" for each in inside)

    def runs_once(self, loop: Loop) -> bool:
        """Whether the body of a loop ends with ``break``, whatever happened: it takes the first batch and no more. So
        does ``for _ in range(1)``."""
        node = self.statement_of(loop)
        last = node.body[-1] if node is not None and node.body else None
        return (isinstance(last, ir.Jump) and last.kind == "break") or (node is not None and _counts_to_one(node.iter))

    def statement_of(self, loop: Loop) -> ir.For | None:
        """The ``for`` statement that a loop is."""
        unit = self.sources.unit(loop.site.path)
        return _loops(unit).get(loop.site.at) if unit is not None else None

    def may_clear(self, clear: Clear, step: Step) -> bool:
        """Whether gradients that are reset may be those that a step applies: not where one of two optimizers is known
        to update tensors of no module, and the other updates modules."""
        if clear.optimizer is not None and step.optimizer not in {None, clear.optimizer}:
            pairs = (clear.optimizer, step.modules), (step.optimizer, clear.modules)
            if any(own is not None and others and self.objects[own].born == "tensors" for own, others in pairs):
                return False
        return not self.disjoint(clear.modules, step.modules)

    def disjoint(self, one: frozenset[ObjectId], other: frozenset[ObjectId]) -> bool:
        """Whether two known sets of modules share none. What came out of code that was not read, or out of a list that
        it filled, may be the same object wherever it is met."""
        if not one or not other or one & other:
            return False
        if not (self._is_anybody(one) and self._is_anybody(other)):
            return True
        makers = [
            {self.made_by.get(obj) for obj in each if self.objects[obj].born == "unseen"} for each in (one, other)
        ]
        return None not in makers[0] | makers[1] and makers[0].isdisjoint(makers[1])  # two calls make two of them

    def _is_anybody(self, modules: frozenset[ObjectId]) -> bool:
        return any(
            self.objects[obj].born == "unseen" and self.objects[obj].trace.note.startswith("used as") for obj in modules
        )


def _too_large(names: Iterable[str]) -> str:
    """The note on a file of which not all was followed to its end."""
    said = [f"`{name}`" if name else "its body" for name in names]
    most = ", ".join(said[:_NAMED]) + (f" and {len(said) - _NAMED} more" if len(said) > _NAMED else "")
    return f"a part of this file is too large to follow ({most}); what was seen is reported"


def nest_key(loops: tuple[Loop, ...]) -> tuple[object, ...]:
    """Which loops these are, outermost first."""
    return tuple(loop.key for loop in loops)


@remembered(maxsize=16)
def functions(unit: ir.Unit) -> tuple[tuple[ir.FunctionDef, range], ...]:
    """The functions of a file, each with the numbers of the nodes that its text holds."""
    return tuple((node, extent(node)) for node in of_type(unit, ir.FunctionDef))


@remembered(maxsize=16)
def _nested(unit: ir.Unit) -> tuple[tuple[ir.FunctionDef, int | None], ...]:
    """The functions of a file in the order of their numbers, each with the index of the one around it."""
    found: list[tuple[ir.FunctionDef, int | None]] = []
    for node in sorted((node for node, _ in functions(unit)), key=lambda node: node.at):
        around = len(found) - 1 if found else None
        while around is not None and node.at not in extent(found[around][0]):
            around = found[around][1]
        found.append((node, around))
    return tuple(found)


@remembered(maxsize=16)
def _loops(unit: ir.Unit) -> dict[int, ir.For]:
    """The ``for`` statements of a file by their numbers."""
    return {node.at: node for node in of_type(unit, ir.For)}


def extent(node: ir.FunctionDef) -> range:
    """The numbers of the nodes that a function's text holds."""
    return range(node.at, node.last + 1)


def name_of(func: Func) -> str:
    """The name of a function; a lambda has none."""
    return getattr(func.node, "name", "")


def _adds_to_object(event: Event) -> bool:
    """``self.total += loss``, of which nothing was there before."""
    return isinstance(event, Store) and event.how == "accumulate" and event.on_object and not event.is_carried


def _counts_to_one(over: ir.Expr) -> bool:
    given = over.args if isinstance(over, ir.Call) and dotted(over.callee) == "range" else ()
    return len(given) == 1 and isinstance(given[0].value, ir.Constant) and given[0].value.value in (0, 1)


def _order(name: str, called: frozenset[str], first: tuple[str, ...]) -> int:
    """What fills the instance before what reads it, and what nothing in the file calls before the rest."""
    begins = ("__init__", *first)
    return begins.index(name) if name in begins else len(begins) + (name in called)
