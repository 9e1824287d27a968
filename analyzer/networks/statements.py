"""Statements: loops over known ranges, branches with known conditions, and what is left of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analyzer.networks.attributes import Attributes
from analyzer.networks.expressions import Frame
from analyzer.networks.sizes import is_small
from analyzer.networks.values import Class, External, Function, Instance, Missing, Space, Stuck, Tensor
from analyzer.networks.world import World
from analyzer.syntax import ir
from analyzer.syntax.scope import walk

GO = object()
"""The statement ended, the next one runs."""
_BREAK, _CONTINUE = object(), object()


class Statements(Attributes):
    """See the module."""

    def __init__(self, world: World, steps: int) -> None:
        super().__init__(world, steps)
        self.building: list[Instance] = []
        self._statements: dict[type, Callable[[Any, Frame], object]] = {
            ir.Evaluate: self._evaluate, ir.Assign: self._assign, ir.Augment: self._augment, ir.Return: self._return,
            ir.If: self._if, ir.For: self._for, ir.While: self._while, ir.With: self._with, ir.Try: self._try,
            ir.Raise: self._raise, ir.Assert: self._assert, ir.FunctionDef: self._function, ir.ClassDef: self._class,
            ir.Delete: self._delete, ir.Import: self._import, ir.ImportFrom: self._import_from,
            ir.Jump: lambda stmt, frame: _BREAK if stmt.kind == "break" else _CONTINUE,
        }  # fmt: skip

    def block(self, body: ir.Block, frame: Frame) -> object:
        """Run statements; `GO`, a jump, or what was returned."""
        for stmt in body:
            self.spend()
            handler = self._statements.get(type(stmt))
            if handler is None:
                continue
            try:
                result = handler(stmt, frame)
            except Stuck as stuck:
                if stuck.place is None:
                    stuck.place = (frame.home.path, stmt.at)
                raise
            if result is not GO:
                return result
        return GO

    def _evaluate(self, stmt: ir.Evaluate, frame: Frame) -> object:
        self.value(stmt.value, frame)
        return GO

    def _assign(self, stmt: ir.Assign, frame: Frame) -> object:
        if stmt.value is not None:
            value = self.value(stmt.value, frame)
            for target in stmt.targets:
                self.bind(target, value, frame)
        return GO

    def bind(self, target: ir.Expr, value: object, frame: Frame) -> None:
        if isinstance(target, ir.Name):
            frame.locals[target.id] = value
        elif isinstance(target, ir.Attribute):
            self.set(self.value(target.value, frame), target.attr, value)
        elif isinstance(target, ir.Subscript):
            self._store_item(self.value(target.value, frame), target, value, frame)
        elif isinstance(target, (ir.Display, ir.Starred)):
            self._unpack(target, value, frame)

    def _store_item(self, owner: object, target: ir.Subscript, value: object, frame: Frame) -> None:
        index = self._index(target.index, frame)
        if isinstance(owner, Instance) and owner.items is not None and isinstance(index, str):
            self.add_child(owner, index, value)
        elif isinstance(owner, Instance) and isinstance(index, int):
            self.replace_item(owner, index, value)
        elif isinstance(owner, list):
            if isinstance(index, int) and -len(owner) <= index < len(owner):
                owner[index] = value
        elif isinstance(owner, dict):
            if isinstance(index, (int, str, float, tuple)) and is_small(index) and not _holds_containers(index):
                owner[index] = value
        elif isinstance(owner, Space):
            owner.fields[str(index)] = value

    def _delete(self, stmt: ir.Delete, frame: Frame) -> object:
        """What is deleted is no part of its owner any more (``del self.head``, ``del encoder.layer[6:]``)."""
        for target in stmt.targets:
            if isinstance(target, ir.Name):
                frame.locals.pop(target.id, None)
            elif isinstance(target, ir.Attribute):
                owner = self.value(target.value, frame)
                if isinstance(owner, (Instance, Space)):
                    owner.fields.pop(target.attr, None)
            elif isinstance(target, ir.Subscript):
                self._delete_item(self.value(target.value, frame), target, frame)
        return GO

    def _delete_item(self, owner: object, target: ir.Subscript, frame: Frame) -> None:
        index = self._index(target.index, frame)
        if isinstance(owner, Instance) and owner.items is not None:
            self.delete_items(owner, index, Missing("what is deleted", frame.home.path, target.at))
        elif isinstance(owner, (list, dict)):
            try:
                del owner[index]  # type: ignore[arg-type]
            except (TypeError, KeyError, IndexError, ValueError):
                raise Stuck("what is deleted is not in the text") from None

    def _unpack(self, target: ir.Expr, value: object, frame: Frame) -> None:
        parts = target.items if isinstance(target, ir.Display) else (target,)
        items = self.items(value)
        star = next((i for i, part in enumerate(parts) if isinstance(part, ir.Starred)), None)
        if items is None or (star is None and len(items) != len(parts)) or len(items) < len(parts) - 1:
            gap = value if isinstance(value, Missing) else Missing("what is unpacked", frame.home.path, target.at)
            items = [gap] * len(parts)
        elif star is not None:
            after = len(parts) - star - 1
            items = [*items[:star], items[star : len(items) - after], *items[len(items) - after :]]
        for part, item in zip(parts, items, strict=True):
            self.bind(part.value if isinstance(part, ir.Starred) else part, item, frame)

    def _augment(self, stmt: ir.Augment, frame: Frame) -> object:
        left, right = self.value(stmt.target, frame), self.value(stmt.value, frame)
        gap = next((each for each in (left, right) if isinstance(each, Missing)), None)
        if gap is None and isinstance(left, list) and stmt.op.rstrip("=") == "+":
            items = self.items(right)
            if items is not None:
                left.extend(items)
                return GO
        if gap is None and isinstance(left, Instance) and left.items is not None and stmt.op.rstrip("=") == "+":
            for item in self.items(right) or ():
                self.add_child(left, str(len(left.items)), item)
            return GO
        self.bind(
            stmt.target,
            gap if gap is not None else self.binary(stmt.op.rstrip("="), left, right, frame, stmt.at),
            frame,
        )
        return GO

    def _return(self, stmt: ir.Return, frame: Frame) -> object:
        return None if stmt.value is None else self.value(stmt.value, frame)

    def _if(self, stmt: ir.If, frame: Frame) -> object:
        known = self.truth(stmt.test, frame)
        if isinstance(known, Missing):
            return self._either(stmt, known, frame)
        return self.block(stmt.body if known else stmt.orelse, frame)

    def _either(self, stmt: ir.If, gap: Missing, frame: Frame) -> object:
        """Nobody knows which branch runs: what either assigns is missing. One that only raises is not taken."""
        if _only_raises(stmt.body):
            return self.block(stmt.orelse, frame)
        if _only_raises(stmt.orelse):
            return self.block(stmt.body, frame)
        if any(isinstance(each, (ir.Return, ir.Jump)) for each in (*stmt.body, *stmt.orelse)):
            raise Stuck(f"a branch depends on {gap.reason}")
        for each in (*stmt.body, *stmt.orelse):
            for target in each.targets if isinstance(each, ir.Assign) else ():
                self.bind(target, Missing(f"a branch depends on {gap.reason}", frame.home.path, stmt.at), frame)
        return GO

    def _for(self, stmt: ir.For, frame: Frame) -> object:
        given = self.value(stmt.iter, frame)
        items = self.items(given)
        if items is None:
            if self.building and not isinstance(given, Tensor):
                if not _may_register(stmt.body):
                    return GO
                reason = given.reason if isinstance(given, Missing) else "what a loop runs over"
                self.building[-1].gaps.append(Missing(reason, frame.home.path, stmt.at))
                return GO
            raise Stuck(given.reason if isinstance(given, Missing) else "what a loop runs over is not in the text")
        for item in items:
            self.bind(stmt.target, item, frame)
            result = self.block(stmt.body, frame)
            if result is _BREAK:
                return GO
            if result is not GO and result is not _CONTINUE:
                return result
        return self.block(stmt.orelse, frame)

    def _while(self, stmt: ir.While, frame: Frame) -> object:
        while True:
            known = self.truth(stmt.test, frame)
            if isinstance(known, Missing):
                raise Stuck(f"a loop depends on {known.reason}")
            if not known:
                return self.block(stmt.orelse, frame)
            result = self.block(stmt.body, frame)
            if result is _BREAK:
                return GO
            if result is not GO and result is not _CONTINUE:
                return result

    def _with(self, stmt: ir.With, frame: Frame) -> object:
        names = []
        for context, target in stmt.items:
            called = context.callee if isinstance(context, ir.Call) else context
            found = self.value(called, frame)
            names.append(found.name if isinstance(found, External) else "")
            if target is not None:
                self.bind(target, Missing("a context", frame.home.path, stmt.at), frame)
        if any(name in ("torch.no_grad", "torch.inference_mode") for name in names):
            with self.tape.paused():
                return self.block(stmt.body, frame)
        return self.block(stmt.body, frame)

    def _try(self, stmt: ir.Try, frame: Frame) -> object:
        result = self.block(stmt.body, frame)
        if result is not GO:
            return result
        result = self.block(stmt.orelse, frame)
        return result if result is not GO else self.block(stmt.final, frame)

    def _raise(self, stmt: ir.Raise, frame: Frame) -> object:
        raise Stuck("the program raises an error here")

    def _assert(self, stmt: ir.Assert, frame: Frame) -> object:
        if self.truth(stmt.test, frame) is False:
            raise Stuck("an assertion does not hold")
        return GO

    def _function(self, stmt: ir.FunctionDef, frame: Frame) -> object:
        frame.locals[stmt.name] = Function(stmt, frame.home, frame.scopes)
        return GO

    def _class(self, stmt: ir.ClassDef, frame: Frame) -> object:
        made = Class(stmt, frame.home, stmt.name, tuple(
            self._base(self.value(arg.value, frame)) for arg in stmt.bases if arg.keyword is None and not arg.star
        ), frame.scopes)  # fmt: skip
        frame.locals[stmt.name] = made
        return GO

    def _base(self, base: object) -> object:
        return self.world.library_class(base.name) or base if isinstance(base, External) else base

    def _import(self, stmt: ir.Import, frame: Frame) -> object:
        for module, bound in stmt.names:
            whole = module if bound else module.split(".")[0]
            frame.locals[bound or whole] = self.world.module(whole, frame.home.path, 0) or External(whole)
        return GO

    def _import_from(self, stmt: ir.ImportFrom, frame: Frame) -> object:
        for name, bound in stmt.names:
            if name != "*":
                frame.locals[bound] = self.world.imported(stmt, name, frame.home.path)
        return GO


def _holds_containers(index: object) -> bool:
    """Whether a key cannot be one: a tuple with a list in it."""
    return isinstance(index, tuple) and any(
        isinstance(each, (list, dict, set)) or _holds_containers(each) for each in index
    )


_REGISTERING = frozenset(
    ["append", "extend", "insert", "add_module", "register_module", "register_parameter", "register_buffer", "setattr"]
)


def _may_register(body: ir.Block) -> bool:
    """Whether statements may give a module a part: they set an attribute, fill a list, or call a method of ``self``."""
    for node in walk(body, into_functions=False):
        if isinstance(node, ir.Assign) and any(isinstance(target, ir.Attribute) for target in node.targets):
            return True
        callee = node.callee if isinstance(node, ir.Call) else None
        owner = callee.value if isinstance(callee, ir.Attribute) else None
        name = callee.attr if isinstance(callee, ir.Attribute) else callee.id if isinstance(callee, ir.Name) else ""
        if name in _REGISTERING or (isinstance(owner, ir.Name) and owner.id == "self"):
            return True
    return False


def _only_raises(body: ir.Block) -> bool:
    return bool(body) and isinstance(body[-1], ir.Raise)
