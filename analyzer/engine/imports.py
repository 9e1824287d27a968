"""Imports: what a name of another file of the tree means.

An import that is there for type checkers only (``if TYPE_CHECKING:``) runs when a name that it binds is evaluated, in
an annotation say, and not before: such imports lead through whole packages, and no program runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from analyzer.engine.functions import Functions
from analyzer.engine.machine import Frame, Later, OutOfBudget, unseen
from analyzer.engine.state import State, merge
from analyzer.engine.values import External, ObjectId, PyModule, Value
from analyzer.knowledge.homes import public_name
from analyzer.records import replace
from analyzer.syntax import ir
from analyzer.syntax.scope import is_for_types

T = TypeVar("T")
EARLIER = 1 << 30
MAX_STARS = 4
"""How many ``from … import *`` a name is followed through."""


class Imports(Functions):
    """Load modules and bind their names."""

    def import_(self, node: ir.Import, state: State) -> State:
        for name, bound in node.names:
            state.set((self.frame.scope, bound or first_of(name)), self.module_named(name, bound, state))
        return state

    def module_named(self, name: str, bound: str | None, state: State) -> Value:
        """What ``import name`` binds, or ``import name as bound``."""
        found = None if is_library(name) else self.project.resolve(name, self.frame.path, 0)
        scope = self.load_module(found, state) if found else None
        if scope is not None and found is not None:
            return PyModule(found, scope) if bound else self.package_of(name, state)
        return External(name if bound else first_of(name))

    def package_of(self, name: str, state: State) -> PyModule:
        """What ``import a.b.c`` binds: the package ``a``, with ``b`` in it and ``c`` in that; a folder without an
        ``__init__`` is a package too."""
        first, *rest = name.split(".")
        whole = inner = self.package(first, state)
        for part in rest:
            first = f"{first}.{part}"
            held = self.package(first, state)
            state.set((inner.scope, part), held)
            inner = held
        return whole

    def package(self, name: str, state: State) -> PyModule:
        path = self.project.resolve(name, self.frame.path, 0)
        scope = self.load_module(path, state) if path else None
        if path is None or scope is None:
            return PyModule(name, self.new_scope(("namespace", name), None))
        return PyModule(path, scope)

    def import_from(self, node: ir.ImportFrom, state: State) -> State:
        found, scope = self.home_of(node, state)
        for name, bound in node.names:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise OutOfBudget
            if name == "*":
                self.import_all(scope, state)
            else:
                what = Later(self.frame.path, node.module, node.level, name, node.at)
                state.set((self.frame.scope, bound), self.name_in(found, scope, what, state))
        return state

    def home_of(self, what: ir.ImportFrom | Later, state: State) -> tuple[str | None, ObjectId | None]:
        """The file that names are imported from, and its scope; neither where it is not in the tree."""
        is_known = not what.level and is_library(what.module)
        found = None if is_known else self.project.resolve(what.module, self.frame.path, what.level)
        return found, self.load_module(found, state) if found else None

    def name_in(self, found: str | None, scope: ObjectId | None, what: Later, state: State) -> Value:
        """A name that is imported from a file that was found and loaded, or from a module outside the tree."""
        value = self.member_of(scope, what.name, state) if scope is not None else None
        if value is not None:
            return value
        is_known = not what.level and is_library(what.module)
        dotted_name = f"{what.module}.{what.name}" if what.module else what.name
        inner = None if is_known else self.project.resolve(dotted_name, self.frame.path, what.level)
        inner_scope = self.load_module(inner, state) if inner else None
        if inner is not None and inner_scope is not None:
            return PyModule(inner, inner_scope)
        if scope is not None and (value := self.in_any(scope, what.name, state)):
            return value
        if not found:
            return External(public_name(f"{what.module}.{what.name}"))
        return unseen(f"`{what.name}` of {found}", self.site(what.at))

    def import_all(self, scope: ObjectId | None, state: State) -> None:
        """``from … import *``: the public names, and not the ``__name__`` of another file. A file that cannot be read
        (its syntax, its place) may bring what all name so."""
        if scope is not None:
            for field, held in state.fields(scope):
                if not field.startswith("_"):
                    state.set((self.frame.scope, field), held)
            for field, later in self.later.get(scope, {}).items():
                if not field.startswith("_"):
                    self.later.setdefault(self.frame.scope, {}).setdefault(field, later)
            return
        for field, full in _EVERYBODY.items():
            if state.get((self.frame.scope, field)) is None:
                state.set((self.frame.scope, field), External(full))

    # --- later ------------------------------------------------------------------------------------------------

    def if_(self, node: ir.If, state: State) -> State | None:
        if self.is_branch(node):
            return super().if_(node, state)
        other = state.fork()
        for each in node.body:
            self.postpone(each)
        end = self.run(tuple(each for each in node.body if not _is_import(each)), state)
        return merge([end, self.run(node.orelse, other)])

    def is_branch(self, node: ir.If) -> bool:
        """Whether an `if` is no import for type checkers."""
        return not is_for_types(node) or not any(map(_is_import, node.body))

    def postpone(self, node: ir.Stmt) -> None:
        """Note what an import will bind."""
        path, waiting = self.frame.path, self.later.setdefault(self.frame.scope, {})
        if isinstance(node, ir.ImportFrom):
            for name, bound in node.names:
                later = Later(path, node.module, node.level, name, node.at)
                waiting[bound if name != "*" else f"* {len(waiting)}"] = later
        elif isinstance(node, ir.Import):
            for name, alias in node.names:
                waiting[alias or first_of(name)] = Later(path, name, 0, "", node.at, alias)

    def imported(self, scope: ObjectId, name: str, state: State) -> Value | None:
        later = self.later[scope].pop(name, None)
        if later is None:
            return None
        value = self.apart(later, lambda: self.meant(later, state))
        state.base.put((scope, name), value)
        return value

    def meant(self, later: Later, state: State) -> Value:
        """What a postponed import binds."""
        if not later.name:
            return self.module_named(later.module, later.bound, state)
        found, scope = self.home_of(later, state)
        return self.name_in(found, scope, later, state)

    def in_any(self, scope: ObjectId, name: str, state: State, depth: int = 0) -> Value | None:
        """A name among what postponed ``from … import *`` bring: only files that say it are looked into."""
        stars = [later for field, later in self.later.get(scope, {}).items() if field.startswith("* ")]
        for later in stars if depth < MAX_STARS else ():
            value = self.apart(later, lambda later=later: self.from_all(later, name, state, depth))  # type: ignore[misc]
            if value is not None:
                state.base.put((scope, name), value)
                return value
        return None

    def from_all(self, later: Later, name: str, state: State, depth: int) -> Value | None:
        path = self.project.resolve(later.module, self.frame.path, later.level)
        source = self.project.read(path) if path is not None else None
        if source is None or not (name.encode() in source or b"import *" in source):
            return None
        scope = self.home_of(later, state)[1]
        if scope is None:
            return None
        return self.member_of(scope, name, state) or self.in_any(scope, name, state, depth + 1)

    def apart(self, later: Later, action: Callable[[], T]) -> T:
        """Run an import that was postponed as its own file would: what is in progress here is none of its business,
        and what it does was done before, not in the loop or the branch that first needs it."""
        context = (self.guards, self.statement, self.lacking)
        mark = len(self.events)
        self.guards, self.statement, self.lacking = (), None, ""
        self.frames.append(Frame(self.modules[later.path], later.path, None, None))
        depth = len(self.frames)
        try:
            return action()
        finally:
            del self.frames[depth - 1 :]
            self.guards, self.statement, self.lacking = context
            self.early += [replace(event, order=event.order - EARLIER) for event in self.events[mark:]]
            del self.events[mark:]


def first_of(name: str) -> str:
    """``a`` of ``a.b.c``."""
    return name.partition(".")[0]


def is_library(name: str) -> bool:
    """Whether an absolute import means PyTorch even where the tree under analysis is PyTorch's own: the tables know it
    better than its code tells, and that code is not read to be left aside."""
    return first_of(name) == "torch"


def _is_import(node: ir.Stmt) -> bool:
    return isinstance(node, (ir.Import, ir.ImportFrom))


_EVERYBODY = {
    "torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "optim": "torch.optim", "np": "numpy",
}  # fmt: skip
