"""The networks that a script trains: what the interpreter saw of their construction, built and run as shapes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial

from analyzer.api import Files, Network, Origin, Place
from analyzer.engine import values as engine
from analyzer.engine.built import MODULES, UNPACKED, Built, held_by
from analyzer.engine.hooks import framework_of
from analyzer.engine.optim_events import OptimizerMade
from analyzer.engine.program import Program
from analyzer.engine.sources import Sources
from analyzer.engine.state import State
from analyzer.knowledge.schema import knowledge
from analyzer.networks.attributes import walk
from analyzer.networks.expressions import Frame
from analyzer.networks.machine import Machine
from analyzer.networks.survey import Survey, Wanted, surveyed
from analyzer.networks.values import Class, External, Function, Gap, Instance, Missing, Partial, Space, Spent, Stuck
from analyzer.networks.world import MISSING, Globals
from analyzer.notebooks.files import NotebookFiles
from analyzer.pipeline import quiet_collector, seen_again
from analyzer.project import Project
from analyzer.syntax import ir

MAX_NETWORKS = 8
MAX_DEPTH = 8


def networks(
    files: Files,
    entry: str,
    argv: Sequence[tuple[str, Origin]],
    wanted: Wanted,
) -> tuple[Network, ...]:
    """See `analyzer.api.networks`."""
    with quiet_collector():
        tree = NotebookFiles(files)
        sources = Sources(Project(tree))

        def ask() -> tuple[Network, ...]:
            program = Program(sources.project, knowledge(), sources)
            program.argv, program.wanted = argv, frozenset({MODULES})
            state = program.run_main(entry)
            if not any(program.of(OptimizerMade)):
                program.run_rest(entry, state)
            bridge = Bridge(program, Machine(sources), state)
            found = [bridge.survey(obj, wanted) for obj in trained(program)[:MAX_NETWORKS]]
            return tuple(_said(each, sources, tree) for each in found)

        return seen_again(ask)


def _said(found: Survey, sources: Sources, tree: NotebookFiles) -> Network:
    """The same with lines instead of numbers of nodes."""

    def line(path: str, at: int) -> int:
        if sources.units.get(path) is None:
            return 0
        span = sources.spans(path, {at}).get(at)
        return tree.line(path, span.start.line) if span is not None else 0

    def place(gap: Gap) -> Place:
        return Place(gap.path, line(gap.path, gap.at), gap.reason)

    return Network(
        found.name, found.path, line(found.path, found.at), found.params, found.trained, found.largest, found.layers,
        tuple(place(gap) for gap in found.gaps), found.passes, place(found.problem) if found.problem else None,
    )  # fmt: skip


def trained(program: Program) -> list[engine.ObjectId]:
    """The modules whose parameters an optimizer holds, or a framework gives to one, as the outermost modules they are
    part of."""
    found: dict[engine.ObjectId, None] = {}
    held = {obj for event in program.of(OptimizerMade) for obj in event.modules}
    held |= {obj for obj, built in program.built.items() if _is_stepped(program, built.cls)}
    for obj in sorted(held):
        built = program.built.get(obj)
        while built is not None and built.parent is not None:
            obj, built = built.parent, program.built.get(built.parent)
        if built is not None or program.objects[obj].name.startswith(_LIBRARIES):
            found[obj] = None
    return list(found)


def _is_stepped(program: Program, cls: engine.Class) -> bool:
    """Whether a framework trains what is made of a class (a LightningModule makes optimizers when it is asked to)."""
    framework = framework_of(program.knowledge, cls)
    return framework is not None and framework.kind == "Module" and "step" in framework.owns


class Bridge:
    """From the interpreter's abstract values to what a constructor is run with."""

    def __init__(self, program: Program, machine: Machine, state: State) -> None:
        self.program = program
        self.machine = machine
        self._state = state
        self._made: dict[engine.ObjectId, object] = {}
        machine.world.left_by = self._left_by

    def survey(self, obj: engine.ObjectId, wanted: Wanted) -> Survey:
        """One network, counted. A bug of ours costs that network alone, and says so."""
        try:
            return self._survey(obj, wanted)
        except Exception as error:  # noqa: BLE001  boundary per network: an estimate must not end for one class
            name = self.program.objects[obj].name or "a network"
            reason = f"it cannot be followed: a bug in Preflight ({type(error).__name__})"
            return Survey(name=name, path="", at=0, gaps=(Gap(reason, "", 0),))

    def _survey(self, obj: engine.ObjectId, wanted: Wanted) -> Survey:
        built = self.program.built.get(obj)
        made = self.module(obj) if built is not None else self._layer(obj, None, 0)
        if isinstance(made, Instance):
            return surveyed(self.machine, made, wanted)
        reason = made.reason if isinstance(made, Missing) else "its constructor gives something else"
        if built is None:
            name = self.program.objects[obj].name.rpartition(".")[2]
            return Survey(name=name, path="", at=0, gaps=(Gap(reason, "", 0),))
        at = built.cls.node.at
        return Survey(name=built.cls.node.name, path=built.cls.path, at=at, gaps=(Gap(reason, built.cls.path, at),))

    def module(self, obj: engine.ObjectId, depth: int = 0) -> object:
        """A module as it was constructed, each once."""
        if obj in self._made:
            return self._made[obj]
        built = self.program.built.get(obj)
        if built is None or depth > MAX_DEPTH:
            return Missing(f"a `{self.program.objects[obj].name or 'module'}` is not in the repository")
        self._made[obj] = Missing("a module that holds itself")
        made = self._by_maker(obj, depth)
        if not isinstance(made, Instance) or made.cls.node is not built.cls.node:
            made = self._tried(lambda: self._constructed(built, depth))
            self._replaced(obj, made, built, depth)
        self._made[obj] = made
        return made

    def _replaced(self, obj: engine.ObjectId, made: object, around: Built, depth: int) -> None:
        """Parts that are set after the constructor (``model.fc = nn.Linear(512, 10)``), by what the script leaves."""
        if not isinstance(made, Instance):
            return
        self._made[obj] = made  # what is set may ask the part that it replaces (``model.fc.in_features``)
        before = self.program.as_built.get(obj, {})
        for name, value in self._state.fields(obj):
            known = before.get(name)
            if value == known or not (self._holds_module(value) or (known is not None and self._holds_module(known))):
                continue
            part = self.value(value, around, depth + 1)
            if isinstance(part, Missing):
                made.gaps.append(Missing(f"`{name}`, which is set later: {part.reason}", part.path, part.at))
            else:
                self.machine.set(made, name, part)

    def _holds_module(self, value: engine.Value) -> bool:
        return any(
            isinstance(case, engine.Ref) and self.program.objects[case.obj].kind == "Module" for case in value.cases
        )

    def _constructed(self, built: Built, depth: int) -> object:
        cls = self.class_of(built.cls)
        names = _positions(cls)
        args = [
            _named(self.value(each, built, depth), names[index] if index < len(names) else "")
            for index, each in enumerate(built.args)
        ]
        keywords = {name: _named(self.value(each, built, depth), name) for name, each in built.keywords}
        if built.has_more:
            keywords["**"] = Missing("arguments that are unpacked")
        return self.machine.call(cls, args, keywords, Frame(self.home(built.cls.path)))

    def _by_maker(self, obj: engine.ObjectId, depth: int) -> object:
        """What the function gave that returned the module, run again step by step: it knows the lists that it filled
        and the layers that it replaced. The outermost call first, which may have done more."""
        for made in reversed(self.program.makers.get(obj, ())):
            func = self._function(made.func)
            if isinstance(func, Missing):
                continue
            around = Built(_NOWHERE, made.args, made.keywords, made.held, None, False)
            found = self._tried(partial(self._run, func, around, depth))
            if isinstance(found, Instance) and not any(each.gaps for each in walk(found)):
                return found
        return MISSING

    def _run(self, func: object, given: Built, depth: int) -> object:
        args = [self.value(each, given, depth + 1) for each in given.args]
        keywords = {name: self.value(each, given, depth + 1) for name, each in given.keywords}
        return self.machine.call(func, args, keywords, Frame(Globals("", (), self.machine.world)))

    def _tried(self, action: Callable[[], object]) -> object:
        try:
            return action()
        except Stuck as stuck:
            return Missing(stuck.reason, *(stuck.place or ("", 0)))
        except (Spent, RecursionError):
            return Missing("its constructor takes too many steps to follow")

    def _left_by(self, path: str, name: str) -> object:
        """See `World.left_by`."""
        scope = self.program.modules.get(path)
        value = self._state.get((scope, name)) if scope is not None else None
        if value is None:
            return MISSING
        around = Built(_NOWHERE, (), (), held_by(self.program, (value,), self._state), None, False)
        found = self.value(value, around)
        return MISSING if isinstance(found, Missing) else found

    def home(self, path: str) -> Globals:
        found = self.machine.world.of_path(path)
        assert found is not None
        return found

    def class_of(self, cls: engine.Class) -> object:
        """The same class: by its name in its module, or made here for one inside a function."""
        home = self.home(cls.path)
        found = home.find(cls.node.name)
        if isinstance(found, Class) and found.node is cls.node:
            return found
        return self.machine.world.make_class(cls.node, home, ())

    def value(self, given: engine.Value, built: Built, depth: int = 0) -> object:
        """What a name holds, where it is one thing."""
        if len(given.cases) != 1:
            return Missing("it may be one of several values", *self._place(given))
        case = given.cases[0]
        if depth > MAX_DEPTH:
            return Missing("it is nested too deeply")
        if isinstance(case, engine.Const):
            return case.value
        if isinstance(case, engine.Tuple):
            return tuple(self.value(each, built, depth + 1) for each in case.items)
        if isinstance(case, (engine.External, engine.Class, engine.Func)):
            return self._named_thing(case)
        if isinstance(case, engine.Partial):
            args = tuple(self.value(each, built, depth + 1) for each in case.args)
            keywords = {name: self.value(each, built, depth + 1) for name, each in case.keywords}
            return Partial(self.value(case.func, built, depth + 1), args, keywords)
        if isinstance(case, engine.Ref):
            return self._object(case, built, depth)
        if isinstance(case, engine.Method) and (found := self._of_part(case, built, depth)) is not None:
            return found
        reason = case.reason if isinstance(case, engine.Unknown) else ""
        return Missing(reason or "it is computed when the program runs", *self._place(case))

    def _named_thing(self, case: engine.External | engine.Class | engine.Func) -> object:
        if isinstance(case, engine.External):
            return External(case.name)
        return self.class_of(case) if isinstance(case, engine.Class) else self._function(case)

    def _of_part(self, case: engine.Method, built: Built, depth: int) -> object:
        """An attribute of a module that is built: a part, or a number (``model.fc.in_features``); else None."""
        owner = self.value(case.receiver, built, depth + 1)
        found = self._tried(lambda: self.machine.get(owner, case.name)) if isinstance(owner, Instance) else None
        return found if isinstance(found, (int, Instance)) else None

    def _place(self, given: engine.Value) -> tuple[str, int]:
        """Where a value was first seen."""
        trace = given.trace or next((case.trace for case in given.cases if case.trace is not None), None)
        if trace is None or self.program.sources.units.get(trace.site.path) is None:
            return "", 0
        return trace.site.path, trace.site.at

    def _function(self, case: engine.Func) -> object:
        if isinstance(case.node, ir.FunctionDef):
            found = self.home(case.path).find(case.node.name)
            if isinstance(found, Function) and found.node is case.node:
                return found
        return Missing("a function that is defined inside another")

    def _object(self, ref: engine.Ref, built: Built, depth: int) -> object:
        obj = self.program.objects[ref.obj]
        if obj.kind == "Module":
            return (
                self.module(ref.obj, depth + 1) if ref.obj in self.program.built else self._layer(ref.obj, built, depth)
            )
        fields = built.held.get(ref.obj, ())
        if obj.kind in ("list", "dict", "set"):
            return self._container(obj.kind, fields, built, depth)
        inner = {name: self.value(value, built, depth + 1) for name, value in fields}
        if obj.cls is not None:
            cls = self.class_of(obj.cls)
            return Instance(cls, inner) if isinstance(cls, Class) else Missing("an object")
        return Space(inner) if inner else Missing(f"a `{obj.name or obj.kind}` of a library")

    def _container(self, kind: str, fields: tuple[tuple[str, engine.Value], ...], built: Built, depth: int) -> object:
        made: dict[object, object] = {}
        for name, value in fields:
            try:
                made[ast.literal_eval(name[1:-1])] = self.value(value, built, depth + 1)
            except (ValueError, SyntaxError, TypeError):
                return Missing("a container whose keys are not all in the text")
        return made if kind == "dict" else list(made.values())

    def _layer(self, number: engine.ObjectId, built: Built | None, depth: int) -> object:
        """A layer of a library that is built outside of any class, each once."""
        if number in self._made:
            return self._made[number]
        self._made[number] = Missing("a module that holds itself")
        made = self._by_maker(number, depth)
        if made is MISSING:
            obj = self.program.objects[number]
            around = built or Built(_NOWHERE, (), (), {}, None, False)
            given = [self.value(value, around, depth + 1) for name, value in obj.arguments if name.isdigit()]
            keywords = {
                name: self.value(value, around, depth + 1) for name, value in obj.arguments if not name.isdigit()
            }
            name = obj.name or "a module"
            if keywords.pop(UNPACKED, None) is None:
                home = Globals("", (), self.machine.world)
                made = self.machine.call(External(name), given, keywords, Frame(home))
                self._replaced(number, made, around, depth)
            else:
                made = Missing(f"what `{name.rpartition('.')[2]}` is given is not all in the text")
        self._made[number] = made
        return self._made[number]


def _positions(cls: object) -> list[str]:
    """What a class's own constructor calls its arguments, in order."""
    body = cls.node.body if isinstance(cls, Class) else ()
    init = next((stmt for stmt in body if isinstance(stmt, ir.FunctionDef) and stmt.name == "__init__"), None)
    return [param.name for param in init.params[1:] if param.kind in ("", None)] if init is not None else []


def _named(value: object, name: str) -> object:
    """A value that is not in the text says which argument it is."""
    if not isinstance(value, Missing) or not name:
        return value
    return Missing(f"argument `{name}`: {value.reason}", value.path, value.at)


_LIBRARIES = ("torch.nn.", "torchvision.models.")
_NOWHERE = engine.Class(ir.ClassDef(0, "", (), (), ()), "", 0)
