"""Names of the repository and of the library of layers, found where Python finds them, evaluated when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import resources

from analyzer.engine.sources import Sources
from analyzer.knowledge.homes import public_name
from analyzer.networks.values import Class, External, Function, Missing
from analyzer.syntax import ir, native

Evaluate = Callable[[ir.Expr, "Globals"], object]
_LIBRARY = {
    "torch.nn": "torch_nn.txt", "torchvision.models": "torchvision_models.txt",
    "einops.layers.torch": "einops_layers.txt",
}  # fmt: skip
MISSING = object()


class Globals:
    """The names of one module."""

    def __init__(self, path: str, body: ir.Block, world: World, prefix: str = "") -> None:
        self.path = path
        self.prefix = prefix
        self.world = world
        self._bodies: dict[str, list[ir.Stmt]] = {}
        self._stars: list[ir.ImportFrom] = []
        self._values: dict[str, object] = {}
        self._open: set[str] = set()
        self._absent: set[str] = set()
        self._index(body)

    def _index(self, body: ir.Block) -> None:
        """What binds which name, also under ``if`` and ``try``, as both usually bind the same."""
        for stmt in body:
            for name in _bound(stmt):
                self._bodies.setdefault(name, []).append(stmt)
            if isinstance(stmt, ir.ImportFrom) and ("*", "*") in stmt.names:
                self._stars.append(stmt)
            for inner in _inner(stmt):
                self._index(inner)

    def names(self) -> Iterator[str]:
        """The names that the module binds."""
        return iter(self._bodies)

    def binds(self, name: str) -> bool:
        """Whether the module's own text binds the name."""
        return name in self._bodies

    def find(self, name: str) -> object:
        """What a name holds once the module has run; `MISSING` where it binds no such name."""
        if name in self._values:
            return self._values[name]
        if name in self._bodies:
            if name in self._open:
                return Missing(f"`{name}` is defined by itself")
            self._open.add(name)
            try:
                found = self._value(name)
            finally:
                self._open.discard(name)
            self._values[name] = found
            return found
        if name in self._absent:
            return MISSING
        self._absent.add(name)  # until it is found: modules may import everything from each other
        for star in self._stars:
            target = self.world.module(star.module, self.path, star.level)
            found = target.find(name) if target is not None else MISSING
            if found is not MISSING:
                self._values[name] = found
                return found
        if self.prefix:
            return MISSING
        for star in self._stars:
            if self.world.module(star.module, self.path, star.level) is None:
                reason = f"`{name}` comes from a module that is not in the repository"
                self._values[name] = Missing(reason, self.path, star.at)
                return self._values[name]
        return MISSING

    def _value(self, name: str) -> object:
        bindings = self._bodies[name]
        found: object = self.world.left_by(self.path, name) if len(bindings) > 1 else MISSING
        if found is not MISSING:
            return found
        for stmt in bindings:  # the first that the text shows: the others stand for when it fails
            found = self._bind(stmt, name)
            if not isinstance(found, Missing):
                return found
        left = self.world.left_by(self.path, name)
        return found if left is MISSING else left

    def _bind(self, stmt: ir.Stmt, name: str) -> object:
        if isinstance(stmt, ir.FunctionDef):
            return Function(stmt, self)
        if isinstance(stmt, ir.ClassDef):
            return self.world.make_class(stmt, self, ())
        if isinstance(stmt, ir.Import):
            return self._imported(stmt, name)
        if isinstance(stmt, ir.ImportFrom):
            wanted = next(each for each, bound in stmt.names if bound == name)
            return self.world.imported(stmt, wanted, self.path)
        if isinstance(stmt, ir.Assign) and stmt.value is not None:
            found = _part_named(name, stmt.targets, self.world.evaluate(stmt.value, self))
            if found is not MISSING:
                return found
        return Missing(f"`{name}` is not a constant of its module", self.path, stmt.at)

    def _imported(self, stmt: ir.Import, name: str) -> object:
        for module, bound in stmt.names:
            if (bound or module.split(".")[0]) == name:
                whole = module if bound else module.split(".")[0]
                return self.world.module(whole, self.path, 0) or External(public_name(whole))
        return Missing(f"`{name}` is not imported", self.path, stmt.at)


class World:
    """The modules of the tree, each read once, and the library of layers."""

    def __init__(self, sources: Sources, evaluate: Evaluate) -> None:
        self.sources = sources
        self.evaluate = evaluate
        self.left_by: Callable[[str, str], object] = lambda path, name: MISSING
        """What a module (by path) has left in a name once it has run, as the interpreter saw it: parsed arguments."""
        self._modules: dict[str, Globals | None] = {}
        self._library: dict[str, Globals] = {}

    def of_path(self, path: str) -> Globals | None:
        """The module in a file."""
        if path not in self._modules:
            unit = self.sources.unit(path)
            self._modules[path] = None if unit is None else Globals(path, unit.body, self)
        return self._modules[path]

    def module(self, module: str, from_path: str, level: int) -> Globals | None:
        """The module of the tree that an import means; None where it leads outside."""
        path = self.sources.project.resolve(module, from_path, level)
        return None if path is None else self.of_path(path)

    def imported(self, stmt: ir.ImportFrom, name: str, from_path: str) -> object:
        """``from module import name``."""
        inside = self.module(stmt.module, from_path, stmt.level)
        found = inside.find(name) if inside is not None else MISSING
        if found is not MISSING:
            return found
        dotted = f"{stmt.module}.{name}" if stmt.module else name
        below = self.module(dotted, from_path, stmt.level)
        if below is not None:
            return below
        if inside is not None or stmt.level:
            return Missing(f"`{name}` is not in `{stmt.module or '.'}`", from_path, stmt.at)
        return External(public_name(dotted))

    def library(self, name: str) -> Class | Function | None:
        """A layer of a library, or a function that builds a network, by its qualified name."""
        package, _, last = name.rpartition(".")
        if package.startswith("torchvision.models.") and package.count(".") == 2:
            package = "torchvision.models"  # the file that defines it
        file = _LIBRARY.get(package)
        if file is None:
            return None
        if package not in self._library:
            self._library[package] = Globals(f"<{package}>", _library_body(file), self, prefix=package)
        found = self._library[package].find(last)
        return found if isinstance(found, (Class, Function)) and not last.startswith("_") else None

    def library_class(self, name: str) -> Class | None:
        """A layer of a library, by its qualified name."""
        found = self.library(name)
        return found if isinstance(found, Class) else None

    def make_class(self, node: ir.ClassDef, home: Globals, around: tuple[dict[str, object], ...]) -> Class:
        """A class with its bases found."""
        name = f"{home.prefix}.{node.name}" if home.prefix else node.name
        bases: list[object] = []
        for arg in node.bases:
            if arg.keyword is None and not arg.star:
                base = self.evaluate(arg.value, home)
                bases.append(self.library_class(base.name) or base if isinstance(base, External) else base)
        return Class(node, home, name, tuple(bases), around)


@lru_cache(maxsize=4)
def _library_body(file: str) -> ir.Block:
    text = (resources.files("analyzer.networks") / "library" / file).read_bytes()
    unit = native.lowered(text, file)
    assert unit is not None, file
    return unit.body


def lineage(cls: Class) -> list[object]:
    """The class and what it derives from, nearest first; a class that several derive from comes after all of them."""
    found: list[object] = []

    def visit(one: object, depth: int) -> None:
        found.append(one)
        if isinstance(one, Class) and depth < 20:
            for base in one.bases:
                visit(base, depth + 1)

    visit(cls, 0)
    kept: list[object] = []
    for one in reversed(found[:200]):  # the last mention of a class is its place
        if not any(one is other or _same_external(one, other) for other in kept):
            kept.append(one)
    return kept[::-1]


def _same_external(one: object, other: object) -> bool:
    return isinstance(one, External) and isinstance(other, External) and one.name == other.name


def _part_named(name: str, targets: Sequence[ir.Expr], value: object) -> object:
    """What an assignment of `value` gives a name."""
    for target in targets:
        if isinstance(target, ir.Name) and target.id == name:
            return value
        if isinstance(target, ir.Display) and isinstance(value, (list, tuple)):
            for each, item in zip(target.items, value, strict=False):
                if isinstance(each, ir.Name) and each.id == name:
                    return item
    return MISSING


def _bound(stmt: ir.Stmt) -> Iterator[str]:
    if isinstance(stmt, (ir.FunctionDef, ir.ClassDef)):
        yield stmt.name
    elif isinstance(stmt, ir.Import):
        yield from (bound or module.split(".")[0] for module, bound in stmt.names)
    elif isinstance(stmt, ir.ImportFrom):
        yield from (bound for name, bound in stmt.names if name != "*")
    elif isinstance(stmt, ir.Assign):
        for target in stmt.targets:
            items = target.items if isinstance(target, ir.Display) else (target,)
            yield from (item.id for item in items if isinstance(item, ir.Name))


def _inner(stmt: ir.Stmt) -> Iterator[ir.Block]:
    if isinstance(stmt, ir.If):
        yield stmt.body
        yield stmt.orelse
    elif isinstance(stmt, ir.Try):
        yield stmt.body
        for handler in stmt.handlers:
            yield handler.body
        yield stmt.orelse
        yield stmt.final
    elif isinstance(stmt, ir.With):
        yield stmt.body
