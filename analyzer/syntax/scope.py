"""Questions about a function body that need no interpretation: which names it binds, and what it uses values for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any, TypeVar

from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered

N = TypeVar("N")

HANDED = "@"
"""Starts a use that hands the value on: ``@train#0`` is the first argument of ``train(…)``."""
ASSIGNED = "="
"""Starts a use that gives the value another name: ``=self.model``."""


SAME_OBJECT = {"to", "cuda", "cpu", "eval", "train", "half", "float", "double", "bfloat16", "requires_grad_"}
"""Methods that give a module itself back: ``self.model = model.to(device).eval()``."""
_COUNTING = {"range", "trange", "tqdm.trange"}
"""Loops over calls of these count: nothing iterates over their arguments."""


def _bare(value: ir.Expr) -> ir.Expr:
    """What a value is before it was moved, or switched between modes."""
    while isinstance(value, ir.Call) and isinstance(value.callee, ir.Attribute) and value.callee.attr in SAME_OBJECT:
        value = value.callee.value
    return value


def _is_scaled(call: ir.Call) -> bool:
    return len(call.args) == 1 and isinstance(call.callee, ir.Attribute) and call.callee.attr == "scale"


class Names:
    """What one body binds and uses, noted by the lowering as it builds the nodes: no second walk.

    `bound`: the names it binds in its own scope; `outer`: those it declares ``global`` or ``nonlocal``; `has_inner`:
    whether it defines a function, class or lambda. `uses`, nested functions included: for each name or dotted chain
    the methods called on it, ``()`` if it is itself called, ``for`` if a loop iterates over it, and ``eval(…)`` for a
    mode method that got arguments; where it is handed on (`HANDED`, `ASSIGNED`).
    """

    __slots__ = ("bound", "has_inner", "outer", "uses", "yields")

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.outer: set[str] = set()
        self.yields = False
        self.has_inner = False
        self.uses: dict[str, set[str]] = {}

    def bind(self, node: object) -> None:
        """Note what a statement, handler or case binds."""
        if type(node) in _BINDING:
            self.bound.update(_bindings(node))
            if isinstance(node, ir.Assign):
                self.assigned(node)
        elif isinstance(node, ir.Outer):
            self.outer.update(node.names)

    def called(self, node: ir.Call) -> None:
        """Note a call, and what it is handed."""
        callee = node.callee
        name = dotted(callee)
        if name:
            self.uses.setdefault(name, set()).add("()")
            for index, arg in enumerate(node.args):
                if isinstance(arg.value, (ir.Name, ir.Attribute)) and not arg.star:
                    self.used(arg.value, f"{HANDED}{name}#{arg.keyword or index}")
        if isinstance(callee, ir.Attribute):
            of = _bare(callee.value)
            if callee.attr == "backward" and isinstance(of, ir.Call) and _is_scaled(of):
                of = of.args[0].value  # ``scaler.scale(loss).backward()``
            self.used(of, f"{callee.attr}(…)" if node.args else callee.attr)

    def assigned(self, node: ir.Assign) -> None:
        """Note that a name gets another name: ``self.model = model``."""
        value = _bare(node.value) if node.value is not None else None
        if isinstance(value, (ir.Name, ir.Attribute)):
            for target in node.targets:
                if name := dotted(target):
                    self.used(value, ASSIGNED + name)
        elif isinstance(value, ir.Display):
            for target in node.targets:
                if isinstance(target, ir.Display) and len(target.items) == len(value.items):
                    for one, other in zip(target.items, map(_bare, value.items), strict=True):
                        if (name := dotted(one)) and isinstance(other, (ir.Name, ir.Attribute)):
                            self.used(other, ASSIGNED + name)

    def iterated(self, iterable: ir.Expr) -> None:
        """Note a loop."""
        self.used(iterable, "for")
        if isinstance(iterable, ir.Call) and dotted(iterable.callee) not in _COUNTING:
            for arg in iterable.args:
                self.used(arg.value, "for")

    def used(self, node: ir.Expr, use: str) -> None:
        """Note one use of a chain of names."""
        name = dotted(node)
        if name:
            self.uses.setdefault(name, set()).add(use)

    def absorb(self, inner: Names) -> None:
        """What a function, class or lambda inside does with names counts here too."""
        self.has_inner = True
        for name, uses in inner.uses.items():
            self.uses.setdefault(name, set()).update(uses)

    def frozen_uses(self) -> dict[str, frozenset[str]]:
        """`uses`, final."""
        return {name: frozenset(uses) for name, uses in self.uses.items()}


_INNER = frozenset([ir.FunctionDef, ir.ClassDef, ir.Lambda])
_NODES = re.compile(r"\b(?:Expr|Block|Arg|Param|Clause|Handler|Case)\b")
_STATEMENTS = re.compile(r"\b(?:Block|Handler|Case)\b")
Getter = Callable[[Any], tuple[Any, ...]]


def _nothing(node: object) -> tuple[Any, ...]:
    return ()


def _getter(kind: Any, types: re.Pattern[str]) -> Getter:
    """What gives the parts of a node of a kind that may be or hold nodes of some types."""
    names = [item.name for item in fields(kind) if types.search(str(item.type))]
    if len(names) == 1:
        get = attrgetter(names[0])
        return lambda node: (get(node),)
    return attrgetter(*names) if names else _nothing


_KINDS = [kind for kind in vars(ir).values() if isinstance(kind, type) and is_dataclass(kind) and kind is not ir.Unit]
_PARTS: dict[type, Getter] = {kind: _getter(kind, _NODES) for kind in _KINDS}
_BLOCKS: dict[type, Getter] = {
    kind: _getter(kind, _STATEMENTS) for kind in _KINDS if issubclass(kind, (ir.Stmt, ir.Handler, ir.Case))
}


def walk(body: tuple[object, ...], into_functions: bool) -> Iterator[object]:
    """Every IR node of a body in no particular order; nested functions, classes and lambdas are yielded, and
    entered only if asked."""
    work: list[Any] = list(body)
    while work:
        node = work.pop()
        kind = type(node)
        if kind is tuple:
            work.extend(node)
            continue
        parts = _PARTS.get(kind)
        if parts is None:
            continue
        yield node
        if parts is not _nothing and (into_functions or kind not in _INNER):
            work.extend(parts(node))


def asked_around(body: ir.Block, at: int) -> list[ir.Expr]:
    """The tests of the conditions that a node of a body stands under, and of those before it that may leave the body by
    a ``return``; conditions of functions in it aside. One walk: a chain of a thousand ``elif`` is a thousand deep."""
    asked: list[ir.If] = []
    around: dict[int, ir.If | None] = {}
    """By condition, the one that it stands under, and the one under whose answer "yes" it does."""
    under: dict[int, ir.If | None] = {}
    holding: set[int] = set()
    leaving: set[int] = set()
    work: list[tuple[Any, ir.If | None, ir.If | None, bool]] = [(body, None, None, False)]
    while work:
        node, outer, yes, is_inner = work.pop()
        kind = type(node)
        if kind is tuple:
            work.extend((each, outer, yes, is_inner) for each in node)
            continue
        if kind not in _PARTS:
            continue
        if getattr(node, "at", None) == at:
            _mark(outer, around, holding)
        if kind is ir.If and not is_inner:
            asked.append(node)
            around[id(node)], under[id(node)] = outer, yes
            work += [(node.test, outer, yes, False), (node.body, node, node, False), (node.orelse, node, yes, False)]
            continue
        if kind is ir.Return and not is_inner:
            _mark(yes, under, leaving)
        work.append((_PARTS[kind](node), outer, yes, is_inner or kind in _INNER))
    return [node.test for node in asked if id(node) in holding or (id(node) in leaving and node.at < at)]


def _mark(node: ir.If | None, outwards: Mapping[int, ir.If | None], marked: set[int]) -> None:
    """Mark a condition and those around it, up to one that is."""
    while node is not None and id(node) not in marked:
        marked.add(id(node))
        node = outwards[id(node)]


@remembered(maxsize=128)
def every(unit: ir.Unit) -> tuple[object, ...]:
    """Every node of a file in the order of `walk`, kept for the next question."""
    return tuple(walk(unit.body, into_functions=True))


def node_at(unit: ir.Unit, at: int) -> ir.Expr | ir.Stmt | None:
    """The node of a number; of parts that share the number of their whole, the whole."""
    nodes = (node for node in nodes_around(unit, at) if isinstance(node, (ir.Expr, ir.Stmt)))
    return next((node for node in nodes if node.at == at), None)


def nodes_around(unit: ir.Unit, at: int) -> Sequence[object]:
    """The nodes of the innermost statement that a number is in, without the statements in it; wholes before parts.

    A statement holds the numbers from its own to that of the next one. A few forms are numbered otherwise (the subject
    of a ``match``): what is not found so is looked for in the whole file."""
    owner, inner = None, _last_before(unit.body, at)
    while inner is not None:
        owner, inner = inner, _last_before(_BLOCKS[type(inner)](inner), at)
    found: list[object] = []
    work: list[Any] = [owner]
    is_there = False
    while work:
        node = work.pop()
        kind = type(node)
        if kind is tuple:
            work.extend(node)
        elif kind in _PARTS and (node is owner or kind not in _BLOCKS):
            found.append(node)
            is_there |= getattr(node, "at", None) == at
            work.extend(_PARTS[kind](node))
    return found if is_there else every(unit)


def branches_around(unit: ir.Unit, at: int) -> Iterator[tuple[ir.If, bool]]:
    """The ``if`` statements that the statement of a number stands in, outermost first, with the way that was taken."""
    inner = _last_before(unit.body, at)
    while inner is not None:
        owner, inner = inner, _last_before(_BLOCKS[type(inner)](inner), at)
        if inner is not None and type(owner) is ir.If:
            yield owner, not (owner.orelse and owner.orelse[0].at <= at)


def blocks_around(unit: ir.Unit, at: int) -> Iterator[tuple[ir.Block, int]]:
    """The blocks that the statement of a number stands in, outermost first, each with the index of the statement of it
    that the number is in."""
    blocks: tuple[Any, ...] = (unit.body,)
    while (inner := _last_before(blocks, at)) is not None:
        if isinstance(inner, ir.Stmt):
            block = next(block for block in _flat(blocks) if inner in block)
            yield block, block.index(inner)
        blocks = _BLOCKS[type(inner)](inner)


def _flat(blocks: tuple[Any, ...]) -> Iterator[ir.Block]:
    """The blocks among the parts of a statement or handler."""
    for each in blocks:
        if isinstance(each, tuple):
            yield each
            yield from _flat(tuple(part for part in each if isinstance(part, ir.Case)))
        elif isinstance(each, ir.Case):
            yield each.body


def _last_before(blocks: tuple[Any, ...], at: int) -> Any:
    """Of the statements and handlers in some blocks the last one whose number is not behind `at`."""
    found, best = None, -1
    work = list(blocks)
    while work:
        node = work.pop()
        if type(node) is tuple:
            work.extend(node)
        elif type(node) is ir.Case:
            work.extend(node.body)
        elif best < node.at <= at:
            found, best = node, node.at
    return found


@remembered(maxsize=128)
def _by_type(unit: ir.Unit) -> dict[type, list[Any]]:
    found: dict[type, list[Any]] = {}
    for node in every(unit):
        found.setdefault(type(node), []).append(node)
    return found


@remembered(maxsize=128)
def _statements_by_type(unit: ir.Unit) -> dict[type, list[Any]]:
    """The statements alone, a tenth of all nodes."""
    found: dict[type, list[Any]] = {}
    work: list[Any] = list(unit.body)
    while work:
        node = work.pop()
        if type(node) is tuple:
            work.extend(node)
            continue
        found.setdefault(type(node), []).append(node)
        work.extend(_BLOCKS[type(node)](node))
    return found


def of_type(unit: ir.Unit | None, kind: type[N]) -> Sequence[N]:
    """The nodes of one type in a file, in the order of `walk`."""
    if unit is None:
        return ()
    return (_statements_by_type if kind in _BLOCKS else _by_type)(unit).get(kind, ())


_BINDING = frozenset(
    [
        ir.Assign, ir.Augment, ir.For, ir.Walrus, ir.With, ir.FunctionDef, ir.ClassDef, ir.Handler, ir.Case,
        ir.Import, ir.ImportFrom,
    ]
)  # fmt: skip


def _bindings(node: object) -> Iterator[str]:
    if isinstance(node, ir.Assign):
        for target in node.targets:
            yield from target_names(target)
    elif isinstance(node, (ir.Augment, ir.For, ir.Walrus)):
        yield from target_names(node.target)
    elif isinstance(node, ir.With):
        for _, bound in node.items:
            if bound is not None:
                yield from target_names(bound)
    elif isinstance(node, (ir.FunctionDef, ir.ClassDef, ir.Handler)):
        if node.name:
            yield node.name
    elif isinstance(node, ir.Case):
        yield from node.names
    else:
        yield from _imported(node)


def _imported(node: object) -> Iterator[str]:
    if isinstance(node, ir.Import):
        for name, bound in node.names:
            yield bound or name.partition(".")[0]
    elif isinstance(node, ir.ImportFrom):
        yield from (bound for _, bound in node.names)


def target_names(target: ir.Expr) -> Iterator[str]:
    """The variables that an assignment target binds."""
    if isinstance(target, ir.Name):
        yield target.id
    elif isinstance(target, ir.Display):
        for item in target.items:
            yield from target_names(item)
    elif isinstance(target, ir.Starred):
        yield from target_names(target.value)


def assigned_names(node: ir.Assign) -> Iterator[str]:
    """The variables that an assignment binds."""
    return (name for target in node.targets for name in target_names(target))


def target_values(node: ir.Assign) -> Iterator[tuple[ir.Expr, ir.Expr]]:
    """What an assignment gives a value, and the value: one by one in ``x, y = one, other``."""
    for target in node.targets if node.value is not None else ():
        if isinstance(target, ir.Display) and isinstance(node.value, ir.Display):
            yield from zip(target.items, node.value.items, strict=False)
        elif node.value is not None:
            yield target, node.value


def each_target(node: ir.Assign) -> Iterator[ir.Expr]:
    """What an assignment gives a value, one by one where several get the parts of one."""
    for target in node.targets:
        yield from target.items if isinstance(target, ir.Display) else (target,)


def is_for_types(node: object) -> bool:
    """``if TYPE_CHECKING:``, whose body no program runs."""
    return isinstance(node, ir.If) and dotted(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def dotted(node: ir.Expr) -> str | None:
    """``a`` or ``self.a`` as text, where the expression is a plain chain of names."""
    if isinstance(node, ir.Name):
        return node.id
    if isinstance(node, ir.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else None
    return None


def last_name(node: ir.Expr) -> str:
    """``c`` of ``c`` and of ``a.b.c``, whatever that is asked of: a chain of names, a call (``f().c``), an item."""
    return node.attr if isinstance(node, ir.Attribute) else node.id if isinstance(node, ir.Name) else ""


def base_name(node: ir.Expr) -> str:
    """The variable that attributes and items are asked of: ``x`` of ``x.y[0]``."""
    while isinstance(node, (ir.Attribute, ir.Subscript)):
        node = node.value
    return node.id if isinstance(node, ir.Name) else ""
