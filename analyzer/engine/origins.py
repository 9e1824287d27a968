"""What a condition is made of, followed by what was assigned rather than by what it is called.

``lead = dist.get_rank() == 0`` and, in another function, ``if lead:``: the words of the test say nothing, those of its
origins do. Names are followed through assignments, attributes, arguments of calls that were read and the first
argument of a function that ``spawn`` runs. Calls are followed by name only, never into what they are given: a metric
that a function returns is no answer to whom that function asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import HANDED, dotted, last_name, of_type, target_names, walk

_DEPTH = 5
_MOST = 64
"""Expressions looked at for one question."""
_PLAIN = frozenset(["int", "bool", "str", "float", "getattr", "get", "getenv", "join", "format", "Path"])
"""Calls that give back what they are given, or look it up by a name."""
_KNOWN = frozenset([
    "torch", "np", "numpy", "os", "math", "len", "isinstance", "hasattr", "getattr", "bool", "int", "any", "all", "str",
    "callable", "min", "max", "abs", "exists", "isfile", "isdir", "is_file", "is_dir", "get", "startswith", "endswith",
    "keys", "item",
])  # fmt: skip
"""Functions and modules whose answer is the same in every process, or nearly."""
SPAWNED = "rank"
"""What is said of the first argument of a function that ``spawn`` runs in every process."""


@dataclass(slots=True)
class Origins:
    """What the files of one program assign, hand over and define."""

    program: Program
    given: dict[tuple[str, str], list[ir.Expr]] = field(default_factory=dict)
    attributes: dict[str, list[tuple[str, ir.Expr]]] = field(default_factory=dict)
    calls: dict[str, list[tuple[str, ir.Call]]] = field(default_factory=dict)
    defined: dict[str, list[tuple[str, ir.FunctionDef]]] = field(default_factory=dict)
    spawned: set[str] = field(default_factory=set)
    entered: set[tuple[str, str]] = field(default_factory=set)
    """What ``with … as name`` gives."""
    devices: set[tuple[str, str]] = field(default_factory=set)
    """Names of the GPU that a process has for itself: what ``cuda(…)``, ``set_device(…)`` or ``device_ids=`` get."""

    def read(self) -> None:
        """Note the assignments, calls and functions of every file that was read."""
        for path in self.program.modules:
            unit = self.program.unit(path)
            for function in of_type(unit, ir.FunctionDef):
                self.defined.setdefault(function.name, []).append((path, function))
            for call in of_type(unit, ir.Call):
                self._called(path, call)
            for block in of_type(unit, ir.With):
                bound = [to for _, to in block.items if to is not None]
                self.entered |= {(path, name) for to in bound for name in target_names(to)}
            for node in of_type(unit, ir.Assign):
                if node.value is not None:
                    for target in node.targets:
                        self._assigned(path, target, node.value)
            for name, how in unit.uses.items() if unit is not None else ():
                if any(use.startswith(HANDED) and use.endswith(("spawn#0", "spawn#fn")) for use in how):
                    self.spawned.add(name.rpartition(".")[2])

    def _called(self, path: str, call: ir.Call) -> None:
        name = last_name(call.callee)
        if name:
            self.calls.setdefault(name, []).append((path, call))
        self.devices |= {(path, each.id) for each in _devices(name, call)}

    def _assigned(self, path: str, target: ir.Expr, value: ir.Expr) -> None:
        """``x = value``, ``self.x = value``, and one by one ``x, y = one, other``."""
        if isinstance(target, ir.Name):
            self.given.setdefault((path, target.id), []).append(value)
        elif isinstance(target, ir.Attribute):
            self.attributes.setdefault(target.attr, []).append((path, value))
        elif isinstance(target, ir.Display) and isinstance(value, ir.Display) and len(target.items) == len(value.items):
            for one, other in zip(target.items, value.items, strict=True):
                self._assigned(path, one, other)

    def of(self, site: Site) -> str:
        """The words of the origins of an expression; of an ``if``, of its test."""
        node = words(self.program).node(site)
        if isinstance(node, (ir.If, ir.While)):
            node = node.test
        said: list[str] = []
        work = [(site.path, node, _DEPTH, True)] if isinstance(node, ir.Expr) else []
        for _ in range(_MOST):
            if not work:
                break
            path, expr, depth, is_asked = work.pop(0)
            for word, more in self._parts(path, expr, is_asked):
                said.append(word)
                work += [(where, each, depth - 1, is_asked) for where, each in more if depth]
        return " ".join(said)

    def _parts(self, path: str, node: ir.Expr, is_asked: bool) -> Iterator[tuple[str, list[tuple[str, ir.Expr]]]]:
        """The words of an expression, and what to look at next. `is_asked`: its truth is what decides."""
        if isinstance(node, ir.Name):
            yield node.id, [(path, each) for each in self.given.get((path, node.id), ())]
            if (path, node.id) in self.devices:
                yield SPAWNED, []
            yield from self._argument(path, node)
        elif isinstance(node, ir.Attribute):
            yield f".{node.attr}", self.attributes.get(node.attr, [])
            yield from self._answers(node.attr) if is_asked else ()  # a property
        elif isinstance(node, ir.Constant):
            yield repr(node.value), []
        elif isinstance(node, ir.Call):
            name = last_name(node.callee)
            yield f"{name}()", []
            yield from self._answers(name) if is_asked else ()
        for part in _inside(node):
            yield from self._parts(path, part, is_asked and not _compares(node))

    def _answers(self, name: str) -> Iterator[tuple[str, list[tuple[str, ir.Expr]]]]:
        """What functions of a name say, and what they return."""
        for path, function in self.defined.get(name, ()):
            given = [each.value for each in walk(function.body, False) if isinstance(each, ir.Return) and each.value]
            said = " ".join((*function.uses, *(attr for attrs in function.uses.values() for attr in attrs)))
            yield said, [(path, each) for each in given]

    def is_unseen(self, site: Site) -> bool:
        """Whether a condition is the answer of a function that was not read, or of one that ``with`` enters."""
        node = words(self.program).node(site)
        test = node.test if isinstance(node, (ir.If, ir.While)) else None
        asked = [test] if test is not None else []
        while asked:
            each = asked.pop()
            if isinstance(each, ir.Operation) and not _compares(each):
                asked += _inside(each)
            elif self._is_unread(each) or (isinstance(each, ir.Name) and (site.path, each.id) in self.entered):
                return True
        return False

    def _is_unread(self, call: ir.Expr) -> bool:
        if not isinstance(call, ir.Call):
            return False
        root, _, last = (dotted(call.callee) or "").rpartition(".")
        return bool(last) and last not in self.defined and last not in _KNOWN and root.partition(".")[0] not in _KNOWN

    def all_of(self, path: str, value: ir.Expr) -> str:
        """The words of the origins of every name in an expression, also of those that are only handed on."""
        parts = walk((ir.Evaluate(value.at, value),), False)
        return " ".join(self.of(Site(path, part.at)) for part in parts if isinstance(part, (ir.Name, ir.Attribute)))

    def is_open(self, site: Site) -> bool:
        """Whether a text is put together with an argument that no call which was read gives: it may name anything."""
        node, function = words(self.program).node(site), self.program.function_around(site)
        if not isinstance(node, (ir.Joined, ir.Operation, ir.Call)) or function is None:
            return False
        given = {param.name for param in function.params if param.default is None} - {"self"}
        parts = list(walk((ir.Evaluate(node.at, node),), False))
        bases = {id(part.value) for part in parts if isinstance(part, ir.Attribute)}  # ``args`` of ``args.output``
        names = {part.id for part in parts if isinstance(part, ir.Name) and id(part) not in bases}
        return bool(names & given) and function.name not in self.calls

    def _argument(self, path: str, node: ir.Name) -> Iterator[tuple[str, list[tuple[str, ir.Expr]]]]:
        """What the calls that were read give a parameter."""
        function = self.program.function_around(Site(path, node.at))
        names = [param.name for param in function.params] if function is not None else []
        if function is None or node.id not in names:
            return
        index = names.index(node.id)
        if index == 0 and function.name in self.spawned:
            yield SPAWNED, []
        is_method = names[:1] == ["self"]
        called = self.program.class_around(Site(path, function.at)) if function.name == "__init__" else function.name
        for where, call in self.calls.get(called, ()):
            found = next((arg.value for arg in call.args if arg.keyword == node.id), None)
            plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
            if found is None and index - is_method < len(plain):
                found = plain[index - is_method]
            if found is not None:
                yield "", [(where, found)]


def _devices(name: str, call: ir.Call) -> Iterator[ir.Name]:
    for arg in call.args:
        value = arg.value
        if arg.keyword == "device_ids" and isinstance(value, ir.Display) and len(value.items) == 1:
            value = value.items[0]
        elif not (name in {"cuda", "set_device"} or (name == "init_process_group" and arg.keyword == "rank")):
            continue
        if isinstance(value, ir.Name):
            yield value


def _inside(node: ir.Expr) -> tuple[ir.Expr, ...]:
    """The parts of an expression that its value is made of."""
    if isinstance(node, ir.Operation):
        return (node.left,) if node.right is None else (node.left, node.right)
    if isinstance(node, ir.Conditional):
        return node.test, node.body, node.orelse
    if isinstance(node, ir.Joined):
        return node.parts
    if isinstance(node, ir.Subscript):
        return node.index, node.value
    if isinstance(node, ir.Call) and last_name(node.callee) in _PLAIN:
        return tuple(arg.value for arg in node.args)
    return ()


def _compares(node: ir.Expr) -> bool:
    return isinstance(node, ir.Operation) and node.op not in {"and", "or", "not"}


def origins(program: Program) -> Origins:
    """The questions, for all rules once."""
    found = program.answers.get(Origins)
    if not isinstance(found, Origins):
        found = program.answers[Origins] = Origins(program)
        found.read()
    return found
