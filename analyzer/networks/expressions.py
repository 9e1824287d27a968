"""Expressions over known values. Whatever is computed from something missing is missing for the same reason."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from analyzer.engine import fold
from analyzer.networks import arithmetic, python, shapes
from analyzer.networks.sizes import is_small
from analyzer.networks.tape import Tape
from analyzer.networks.values import (
    Class,
    External,
    Function,
    Instance,
    Missing,
    Space,
    Spent,
    Stuck,
    Tensor,
)
from analyzer.networks.world import MISSING, Globals, World
from analyzer.syntax import ir

MAX_ITEMS = 4096
_SHORT = {"and": False, "or": True}
_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "**": "pow", "@": "matmul",
              "%": "remainder"}  # fmt: skip


class Frame:
    """One function activation: its variables, those around it, and whose method it is."""

    __slots__ = ("around", "home", "locals", "owner", "this")

    def __init__(
        self, home: Globals, around: tuple[dict[str, object], ...] = (), owner: Class | None = None, this: object = None
    ) -> None:
        self.home = home
        self.locals: dict[str, object] = {}
        self.around = around
        self.owner = owner
        self.this = this

    @property
    def scopes(self) -> tuple[dict[str, object], ...]:
        """For a function defined here: the variables it sees, innermost first."""
        return (self.locals, *self.around)


class Expressions(ABC):
    """Evaluation of expressions; calls and attributes are made by the parts that build on it."""

    def __init__(self, world: World, steps: int) -> None:
        self.world = world
        self.steps = steps
        self.tape = Tape()
        self._forms: dict[type, Callable[[Any, Frame], object]] = {
            ir.Name: self._name, ir.Attribute: self._attribute, ir.Subscript: self._subscript, ir.Call: self._call,
            ir.Constant: lambda expr, frame: expr.value, ir.Display: self._display, ir.DictDisplay: self._dict,
            ir.Operation: self._operation, ir.Conditional: self._conditional, ir.Comprehension: self._comprehension,
            ir.Joined: self._joined, ir.Lambda: self._lambda, ir.Walrus: self._walrus,
        }  # fmt: skip

    @abstractmethod
    def call(self, callee: object, args: list[object], keywords: dict[str, object], frame: Frame) -> object:
        """The result of a call."""

    @abstractmethod
    def get(self, value: object, name: str) -> object:
        """An attribute of a value."""

    @abstractmethod
    def bind(self, target: ir.Expr, value: object, frame: Frame) -> None:
        """Assign to a target."""

    def spend(self) -> None:
        """One step of the budget. Raises `Spent`."""
        self.steps -= 1
        if self.steps < 0:
            raise Spent

    def missing(self, reason: str, frame: Frame, at: int) -> Missing:
        """A value that the text does not show."""
        return Missing(reason, frame.home.path, at)

    def value(self, expr: ir.Expr, frame: Frame) -> object:
        """What an expression gives."""
        self.spend()
        form = self._forms.get(type(expr))
        if form is None:
            return self.missing("an expression of another kind", frame, expr.at)
        try:
            return form(expr, frame)
        except Stuck as stuck:
            if stuck.place is None:
                stuck.place = (frame.home.path, expr.at)
            raise

    def truth(self, expr: ir.Expr, frame: Frame) -> bool | Missing:
        """Whether a condition holds."""
        return truth_of(self.value(expr, frame), frame, expr)

    def _name(self, expr: ir.Name, frame: Frame) -> object:
        for scope in frame.scopes:
            if expr.id in scope:
                return scope[expr.id]
        found = frame.home.find(expr.id)
        if found is MISSING or (isinstance(found, Missing) and not frame.home.binds(expr.id)):
            known = python.builtin(expr.id)
            found = found if known is MISSING else known
        if found is MISSING:
            return self.missing(f"`{expr.id}` is not defined in the text", frame, expr.at)
        return found

    def _attribute(self, expr: ir.Attribute, frame: Frame) -> object:
        value = self.value(expr.value, frame)
        if isinstance(value, Missing):
            return value
        found = self.get(value, expr.attr)
        return self.missing(f"`.{expr.attr}` is not in the text", frame, expr.at) if found is MISSING else found

    def _call(self, expr: ir.Call, frame: Frame) -> object:
        callee = self.value(expr.callee, frame)
        given = self._arguments(expr, frame)
        if isinstance(callee, Missing):
            return callee
        if isinstance(given, Missing):
            return given
        args, keywords = given
        if isinstance(callee, External) and callee.name == "super":
            args = args or [frame.owner, frame.this]
        result = self.call(callee, args, keywords, frame)
        if isinstance(result, Missing) and not result.path:
            result.path, result.at = frame.home.path, expr.at
        return result

    def _arguments(self, expr: ir.Call, frame: Frame) -> tuple[list[object], dict[str, object]] | Missing:
        args: list[object] = []
        keywords: dict[str, object] = {}
        for arg in expr.args:
            value = self.value(arg.value, frame)
            if arg.star == "*":
                items = self.items(value)
                if items is None:
                    return value if isinstance(value, Missing) else self.missing("unpacked values", frame, expr.at)
                args += items
            elif arg.star == "**":
                if isinstance(value, dict):
                    keywords.update({str(key): item for key, item in value.items()})
                elif isinstance(value, Missing):
                    keywords["**"] = value
            elif arg.keyword is not None:
                keywords[arg.keyword] = value
            else:
                args.append(value)
        return args, keywords

    def _display(self, expr: ir.Display, frame: Frame) -> object:
        items: list[object] = []
        for item in expr.items:
            if isinstance(item, ir.Starred):
                inner = self.items(self.value(item.value, frame))
                if inner is None:
                    return self.missing("unpacked values", frame, item.at)
                items += inner
            else:
                items.append(self.value(item, frame))
        return tuple(items) if expr.kind == "tuple" else items

    def _dict(self, expr: ir.DictDisplay, frame: Frame) -> object:
        made: dict[object, object] = {}
        for key, item in expr.items:
            value = self.value(item, frame)
            if key is None:
                if isinstance(value, dict):
                    made.update(value)
                continue
            name = self.value(key, frame)
            if isinstance(name, (str, int, float, bool, tuple)) and _hashable(name):
                made[name] = value
        return made

    def _operation(self, expr: ir.Operation, frame: Frame) -> object:
        left = self.value(expr.left, frame)
        if expr.op in _SHORT and expr.right is not None:
            known = truth_of(left, frame, expr.left)
            if isinstance(known, Missing):
                return known
            return left if known is _SHORT[expr.op] else self.value(expr.right, frame)
        if isinstance(left, Missing):
            return left
        if expr.right is None:
            return self._unary(expr, left, frame)
        right = self.value(expr.right, frame)
        if isinstance(right, Missing):
            return right
        return self.binary(expr.op, left, right, frame, expr.at)

    def _unary(self, expr: ir.Operation, value: object, frame: Frame) -> object:
        if isinstance(value, Tensor):
            return self.tape.result(value.shape, [value], value.dtype)
        if expr.op == "not":
            known = truth_of(value, frame, expr.left)
            return known if isinstance(known, Missing) else not known
        try:
            return fold.unary(expr.op, value)
        except fold.NotConstant:
            return self.missing(f"`{expr.op}` of such a value", frame, expr.at)

    def binary(self, op: str, left: object, right: object, frame: Frame, at: int) -> object:
        """One operation on two known values."""
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            if op in ("in", "not in"):
                return self.missing("membership of tensors", frame, at)
            if op in ("is", "is not"):
                return (left is right) == (op == "is")
            return arithmetic.arithmetic(self.tape, _OPERATORS.get(op, "compare"), left, right)
        if op[:2] != "is" and not is_small(left, right):
            return self.missing(f"`{op}` of very much", frame, at)
        if op in ("is", "is not", "==", "!="):
            return same(left, right, op) == (op in ("is", "=="))
        if op in ("in", "not in"):
            inside = _contains(right, left)
            return self.missing("membership", frame, at) if inside is None else inside == (op == "in")
        made = _of_containers(op, left, right)
        if made is not MISSING:
            return made
        if op in "+*|" and isinstance(left, (list, tuple, dict)):
            return self.missing(f"`{op}` of such values", frame, at)
        try:
            return fold.binary(op, left, right)
        except fold.NotConstant:
            return self.missing(f"`{op}` of such values", frame, at)

    def _conditional(self, expr: ir.Conditional, frame: Frame) -> object:
        known = self.truth(expr.test, frame)
        return known if isinstance(known, Missing) else self.value(expr.body if known else expr.orelse, frame)

    def _comprehension(self, expr: ir.Comprehension, frame: Frame) -> object:
        inner = Frame(frame.home, frame.scopes, frame.owner, frame.this)
        made: list[object] = []
        pairs: dict[object, object] = {}

        def run(clauses: Sequence[ir.Clause]) -> Missing | None:
            if not clauses:
                item = self.value(expr.element, inner)
                if expr.key is not None:
                    key = self.value(expr.key, inner)
                    if _hashable(key):
                        pairs[key] = item
                else:
                    made.append(item)
                return None
            given = self.value(clauses[0].iter, inner)
            items = self.items(given)
            if items is None:
                return given if isinstance(given, Missing) else self.missing("what is iterated over", frame, expr.at)
            for item in items:
                self.bind(clauses[0].target, item, inner)
                holds = [self.truth(test, inner) for test in clauses[0].conditions]
                if gap := next((each for each in holds if isinstance(each, Missing)), None):
                    return gap
                if all(holds) and (gap := run(clauses[1:])):
                    return gap
            return None

        gap = run(expr.clauses)
        if gap is not None:
            return gap
        return pairs if expr.kind == "dict" else made

    def _joined(self, expr: ir.Joined, frame: Frame) -> object:
        parts = [self.value(part, frame) for part in expr.parts]
        gap = next((part for part in parts if isinstance(part, Missing)), None)
        if gap is not None:
            return gap
        if not is_small(parts):
            return self.missing("a text of very much", frame, expr.at)
        return "".join(str(part)[:1000] for part in parts)[:1000]

    def _lambda(self, expr: ir.Lambda, frame: Frame) -> object:
        return Function(expr, frame.home, frame.scopes, frame.owner)

    def _walrus(self, expr: ir.Walrus, frame: Frame) -> object:
        value = self.value(expr.value, frame)
        self.bind(expr.target, value, frame)
        return value

    # --- items ------------------------------------------------------------------------------------------------

    def items(self, value: object) -> list[object] | None:
        """What iterating gives, where that is known and not too much."""
        if isinstance(value, (list, tuple, range, set)):
            return list(value) if len(value) <= MAX_ITEMS else None
        if isinstance(value, dict):
            return list(value)
        if isinstance(value, str):
            return list[object](value[:MAX_ITEMS])
        if isinstance(value, Instance) and value.items is not None:
            if value.cls.name.endswith("ModuleDict"):
                return list(python.named_children(value))
            return list(value.items)
        if isinstance(value, Tensor) and value.shape and value.shape[0] <= MAX_ITEMS:
            return [self.tape.result(value.shape[1:], [value], value.dtype) for _ in range(value.shape[0])]
        return None

    def _subscript(self, expr: ir.Subscript, frame: Frame) -> object:
        value, index = self.value(expr.value, frame), self._index(expr.index, frame)
        if isinstance(value, Missing):
            return value
        if isinstance(index, Missing):
            return index
        if isinstance(value, Tensor):
            return shapes.indexed(self.tape, value, index)
        found = self.item(value, index)
        return self.missing("an item that the text does not show", frame, expr.at) if found is MISSING else found

    def item(self, value: object, index: object) -> object:
        """``value[index]``; `MISSING` where it is not known."""
        if isinstance(value, Space):
            return value.fields.get(str(index), MISSING)
        if isinstance(value, Instance) and value.items is not None:
            if isinstance(index, str):
                return value.fields.get(index, MISSING)
            if isinstance(index, slice):
                return python.sliced(value, index)
            value = value.items
        if isinstance(value, Instance):
            return value.fields.get(str(index), MISSING)
        if isinstance(value, External):
            module, _, last = value.name.rpartition(".")
            is_named = last == "__dict__" and isinstance(index, str)
            return External(f"{module}.{index}") if is_named else value  # ``Callable[[int], int]``
        try:
            return value[index]  # type: ignore[index]
        except (KeyError, IndexError, TypeError, ValueError):
            return MISSING

    def _index(self, expr: ir.Expr, frame: Frame) -> object:
        if isinstance(expr, ir.Slice):
            parts = [None if part is None else self.value(part, frame) for part in (expr.lower, expr.upper, expr.step)]
            gap = next((part for part in parts if isinstance(part, Missing)), None)
            return gap if gap is not None else slice(*parts)
        if isinstance(expr, ir.Display) and expr.kind == "tuple":
            found = [self._index(item, frame) for item in expr.items]
            gap = next((part for part in found if isinstance(part, Missing)), None)
            return gap if gap is not None else tuple(found)
        return self.value(expr, frame)


def truth_of(value: object, frame: Frame, expr: ir.Expr) -> bool | Missing:
    """Whether a value counts as true."""
    if isinstance(value, Missing):
        return value
    if isinstance(value, Tensor):
        return Missing("a condition on numbers of a tensor", frame.home.path, expr.at)
    if isinstance(value, Instance) and value.items is not None:
        return bool(value.items)
    if isinstance(value, (Class, Function, External, Instance, Space)):
        return True
    return bool(value)


def same(left: object, right: object, op: str) -> bool:
    """``==`` and ``is`` of known values."""
    if isinstance(left, External) and isinstance(right, External):
        return left.name == right.name
    if isinstance(left, (Instance, Class, Function)) or isinstance(right, (Instance, Class, Function)):
        return left is right
    if op.startswith("is") and (left is None or right is None or isinstance(left, bool)):
        return left is right
    try:
        return bool(left == right)
    except (TypeError, ValueError):
        return False


def _of_containers(op: str, left: object, right: object) -> object:
    """Joined and repeated lists, merged dicts; `MISSING` for anything else."""
    if op == "*" and isinstance(right, (list, tuple)):
        left, right = right, left
    if op == "*" and isinstance(left, (list, tuple)) and isinstance(right, int):
        return left * right if len(left) * right <= MAX_ITEMS else MISSING
    if op == "+" and isinstance(left, list) and isinstance(right, list):
        return left + right if len(left) + len(right) <= python.MAX_LENGTH else MISSING
    if op == "+" and isinstance(left, tuple) and isinstance(right, tuple):
        return left + right if len(left) + len(right) <= python.MAX_LENGTH else MISSING
    if op == "|" and isinstance(left, dict) and isinstance(right, dict):
        return {**left, **right}
    return MISSING


def _contains(container: object, item: object) -> bool | None:
    if isinstance(container, (list, tuple, dict, set, range)):
        return any(same(each, item, "==") for each in container)
    if isinstance(container, str):
        return isinstance(item, str) and item in container
    if isinstance(container, Space):
        return str(item) in container.fields
    if isinstance(container, Instance) and isinstance(item, str):
        return item in container.fields
    return None


def _hashable(value: object) -> bool:
    if not is_small(value):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True
