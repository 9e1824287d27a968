"""Python's own tree to the same IR as `lower` makes of LibCST's: same nodes, same numbers, a tenth of the time.

Most files report nothing, so most files never need the tree that knows every space. LibCST reads a file only where
something in it is reported, or where Python's parser does not know the syntax of a newer version.
The order in which each form gives out numbers is that of `lower`; ``tests/analyzer/test_native.py`` compares the two.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from analyzer.syntax import ir
from analyzer.syntax.scope import Names

_OPS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.And: "and", ast.Or: "or", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not", ast.Not: "not",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
}  # fmt: skip


class Inside(NamedTuple):
    """A node inside an f-string, whose place Python does not always tell right before 3.12."""

    node: ast.expr
    string: ast.JoinedStr


def lowered(source: bytes, path: str) -> ir.Unit | None:
    """The IR of a file; None where Python's parser does not take it. The source must not be too deep to parse."""
    made = numbered(source, path)
    return None if made is None else made[0]


def numbered(source: bytes, path: str) -> tuple[ir.Unit, list[Any]] | None:
    """The IR of a file with its `nodes`."""
    made = _lowered(source)
    if made is None:
        return None
    body, lowering = made
    return ir.Unit(path, body, len(lowering.nodes), lowering.names.frozen_uses()), lowering.nodes


def nodes(source: bytes) -> list[Any] | None:
    """The node of every number: an `ast` node, or the first and the last operand where an operation has none."""
    made = _lowered(source)
    return None if made is None else made[1].nodes


def _lowered(source: bytes) -> tuple[ir.Block, _Lowering] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        lowering = _Lowering()
        return lowering.block(tree.body), lowering
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Lowering:
    __slots__ = ("names", "nodes")

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.names = Names()

    def number(self, node: Any) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    # --- statements -------------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> ir.Block:
        result: list[ir.Stmt] = []
        names, nodes = self.names, self.nodes
        for node in body:
            handler = _STATEMENTS.get(type(node))
            if handler is not None:
                at = len(nodes)
                nodes.append(node)
                statement = handler(self, node, at)
                names.bind(statement)
                result.append(statement)
        return tuple(result)

    @contextmanager
    def scope(self) -> Iterator[Names]:
        """See `lower`."""
        around, self.names = self.names, Names()
        yield self.names
        around.absorb(self.names)
        self.names = around

    def assign(self, node: ast.Assign, at: int) -> ir.Stmt:
        targets = tuple([self.expr(target) for target in node.targets])
        return ir.Assign(at, targets, self.expr(node.value))

    def ann_assign(self, node: ast.AnnAssign, at: int) -> ir.Stmt:
        value = self.expr(node.value) if node.value else None
        return ir.Assign(at, (self.expr(node.target),), value, self.expr(node.annotation))

    def aug_assign(self, node: ast.AugAssign, at: int) -> ir.Stmt:
        return ir.Augment(at, self.expr(node.target), _OPS[type(node.op)], self.expr(node.value))

    def delete(self, node: ast.Delete, at: int) -> ir.Stmt:
        targets: list[ast.expr] = node.targets
        if len(targets) == 1 and isinstance(targets[0], (ast.Tuple, ast.List)):
            targets = targets[0].elts
        return ir.Delete(at, self.elements(targets))

    def return_(self, node: ast.Return, at: int) -> ir.Stmt:
        return ir.Return(at, self.expr(node.value) if node.value else None)

    def raise_(self, node: ast.Raise, at: int) -> ir.Stmt:
        return ir.Raise(at, self.expr(node.exc) if node.exc else None)

    def if_(self, node: ast.If, at: int) -> ir.Stmt:
        """A chain of `elif` is an `if` in the `else` of an `if` and so on: told without going as deep."""
        above: list[tuple[int, ir.Expr, ir.Block]] = []
        while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            above.append((at, self.expr(node.test), self.block(node.body)))
            node = node.orelse[0]
            at = self.number(node)
        chain = ir.If(at, self.expr(node.test), self.block(node.body), self.block(node.orelse))
        for at, test, body in reversed(above):
            chain = ir.If(at, test, body, (chain,))
        return chain

    def for_(self, node: ast.For | ast.AsyncFor, at: int) -> ir.Stmt:
        iterable = self.expr(node.iter)
        self.names.iterated(iterable)
        return ir.For(at, self.expr(node.target), iterable, self.block(node.body), self.block(node.orelse))

    def while_(self, node: ast.While, at: int) -> ir.Stmt:
        return ir.While(at, self.expr(node.test), self.block(node.body), self.block(node.orelse))

    def with_(self, node: ast.With | ast.AsyncWith, at: int) -> ir.Stmt:
        items = tuple(
            [
                (self.expr(item.context_expr), self.expr(item.optional_vars) if item.optional_vars else None)
                for item in node.items
            ]
        )
        return ir.With(at, items, self.block(node.body))

    def try_(self, node: Any, at: int) -> ir.Stmt:
        body = self.block(node.body)
        handlers = tuple([self.handler(handler) for handler in node.handlers])
        final = self.block(node.finalbody)
        return ir.Try(at, body, handlers, self.block(node.orelse), final)

    def handler(self, node: ast.ExceptHandler) -> ir.Handler:
        number, kind = self.number(node), self.expr(node.type) if node.type else None
        handler = ir.Handler(number, kind, node.name, self.block(node.body))
        self.names.bind(handler)
        return handler

    def match(self, node: ast.Match, at: int) -> ir.Stmt:
        cases = tuple(
            [
                ir.Case(_captures(case.pattern), self.expr(case.guard) if case.guard else None, self.block(case.body))
                for case in node.cases
            ]
        )
        for case in cases:
            self.names.bind(case)
        return ir.Match(at, self.expr(node.subject), cases)

    def import_(self, node: ast.Import, at: int) -> ir.Stmt:
        return ir.Import(at, tuple([(alias.name, alias.asname) for alias in node.names]))

    def import_from(self, node: ast.ImportFrom, at: int) -> ir.Stmt:
        names = tuple([(alias.name, alias.asname or alias.name) for alias in node.names])
        return ir.ImportFrom(at, node.module or "", node.level, names)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, at: int) -> ir.Stmt:
        decorators = tuple([self.expr(decorator) for decorator in node.decorator_list])
        params = self.params(node.args)
        returns = self.expr(node.returns) if node.returns else None
        with self.scope() as inner:
            body = self.block(node.body)
        names = (inner.bound | {param.name for param in params}) - inner.outer
        first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
        lines = (first, node.end_lineno or node.lineno)
        return ir.FunctionDef(
            at, node.name, params, decorators, body, returns, frozenset(names), frozenset(inner.outer),
            inner.yields, type(node) is ast.AsyncFunctionDef, inner.frozen_uses(), inner.has_inner, len(self.nodes) - 1,
            lines,
        )  # fmt: skip

    def params(self, node: ast.arguments) -> tuple[ir.Param, ...]:
        plain = [*node.posonlyargs, *node.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(node.defaults))
        defaults += node.defaults
        found = [self.param(param, default, "") for param, default in zip(plain, defaults, strict=True)]
        if node.vararg is not None:
            found.append(self.param(node.vararg, None, "*"))
        found += [
            self.param(param, default, "kw") for param, default in zip(node.kwonlyargs, node.kw_defaults, strict=True)
        ]
        if node.kwarg is not None:
            found.append(self.param(node.kwarg, None, "**"))
        return tuple(found)

    def param(self, node: ast.arg, given: ast.expr | None, kind: Literal["", "*", "**", "kw"]) -> ir.Param:
        default = self.expr(given) if given else None
        annotation = self.expr(node.annotation) if node.annotation else None
        return ir.Param(node.arg, self.number(node), default, annotation, kind)

    def class_(self, node: ast.ClassDef, at: int) -> ir.Stmt:
        decorators = tuple([self.expr(decorator) for decorator in node.decorator_list])
        bases = (*map(self.arg, node.bases), *map(self.keyword, node.keywords))
        with self.scope():
            body = self.block(node.body)
        return ir.ClassDef(at, node.name, bases, decorators, body)

    # --- expressions ------------------------------------------------------------------------------------------

    def expr(self, node: ast.expr) -> ir.Expr:
        handler = _EXPRESSIONS.get(type(node))
        at = len(self.nodes)
        self.nodes.append(node)
        return handler(self, node, at) if handler else ir.Opaque(at)

    def name(self, node: ast.Name, at: int) -> ir.Expr:
        return ir.Name(at, node.id)

    def attribute(self, node: ast.Attribute, at: int) -> ir.Expr:
        return ir.Attribute(at, self.expr(node.value), node.attr)

    def subscript(self, node: ast.Subscript, at: int) -> ir.Expr:
        value, index = self.expr(node.value), node.slice
        if isinstance(index, ast.Tuple) and index.elts:
            return ir.Subscript(at, value, ir.Display(at, "tuple", tuple([self.index(item) for item in index.elts])))
        return ir.Subscript(at, value, self.index(index))

    def index(self, node: ast.expr) -> ir.Expr:
        if isinstance(node, ast.Slice):
            at = self.number(node)
            return ir.Slice(at, *[self.expr(part) if part else None for part in (node.lower, node.upper, node.step)])
        return self.expr(node.value if isinstance(node, ast.Starred) else node)

    def call(self, node: ast.Call, at: int) -> ir.Expr:
        callee = self.expr(node.func)
        call = ir.Call(at, callee, tuple([self.arg_or_keyword(arg) for arg in in_order(node)]))
        self.names.called(call)
        return call

    def arg_or_keyword(self, node: ast.expr | ast.keyword) -> ir.Arg:
        return self.keyword(node) if isinstance(node, ast.keyword) else self.arg(node)

    def arg(self, node: ast.expr) -> ir.Arg:
        if isinstance(node, ast.Starred):
            return ir.Arg(self.expr(node.value), None, "*")
        return ir.Arg(self.expr(node))

    def keyword(self, node: ast.keyword) -> ir.Arg:
        return ir.Arg(self.expr(node.value), node.arg, "" if node.arg else "**")

    def formatted(self, node: ast.JoinedStr, at: int) -> ir.Expr:
        parts: list[ir.Expr] = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(ir.Constant(at, part.value))
            elif isinstance(part, ast.FormattedValue):
                parts.append(self.expr(part.value))
        if sys.version_info < (3, 12):  # places inside an f-string are not sure there
            inner = self.nodes[at + 1 :]
            self.nodes[at + 1 :] = [Inside(each, node) if isinstance(each, ast.expr) else None for each in inner]
        return ir.Joined(at, tuple(parts))

    def tuple_(self, node: ast.Tuple, at: int) -> ir.Expr:
        return ir.Display(at, "tuple", self.elements(node.elts))

    def list_(self, node: ast.List, at: int) -> ir.Expr:
        return ir.Display(at, "list", self.elements(node.elts))

    def set_(self, node: ast.Set, at: int) -> ir.Expr:
        return ir.Display(at, "set", self.elements(node.elts))

    def elements(self, nodes: list[ast.expr]) -> tuple[ir.Expr, ...]:
        return tuple([self.element(node) for node in nodes])

    def element(self, node: ast.expr) -> ir.Expr:
        if isinstance(node, ast.Starred):
            return ir.Starred(self.number(node), self.expr(node.value))
        return self.expr(node)

    def dict_(self, node: ast.Dict, at: int) -> ir.Expr:
        items = [
            (self.expr(key) if key else None, self.expr(value))
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return ir.DictDisplay(at, tuple(items))

    def operation(self, node: ast.BinOp | ast.BoolOp, at: int) -> ir.Expr:
        """Down the left side, as `lower` does: ``a and b and c`` is two operations there and one node here."""
        spine: list[tuple[int, str, ast.expr]] = []
        left: ast.expr = node
        number = at
        while True:
            if isinstance(left, ast.BinOp):
                spine.append((number, _OPS[type(left.op)], left.right))
                left = left.left
            elif isinstance(left, ast.BoolOp):
                op = _OPS[type(left.op)]
                first, last, *others = left.values[0], *reversed(left.values[1:])
                spine.append((number, op, last))
                spine += [(self.number((first, value)), op, value) for value in others]
                left = first
            else:
                break
            if isinstance(left, (ast.BinOp, ast.BoolOp)):
                number = self.number(left)
        result = self.expr(left)
        for at_op, op, right in reversed(spine):
            result = ir.Operation(at_op, op, result, self.expr(right))
        return result

    def unary(self, node: ast.UnaryOp, at: int) -> ir.Expr:
        return ir.Operation(at, _OPS[type(node.op)], self.expr(node.operand), None)

    def comparison(self, node: ast.Compare, at: int) -> ir.Expr:
        left = self.expr(node.left)
        result: ir.Expr | None = None
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.expr(comparator)
            one = ir.Operation(at, _OPS[type(op)], left, right)
            result = one if result is None else ir.Operation(at, "and", result, one)
            left = right
        return result or left

    def conditional(self, node: ast.IfExp, at: int) -> ir.Expr:
        return ir.Conditional(at, self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def lambda_(self, node: ast.Lambda, at: int) -> ir.Expr:
        params = self.params(node.args)
        with self.scope():
            return ir.Lambda(at, params, self.expr(node.body))

    def comprehension(self, node: Any, at: int) -> ir.Expr:
        clauses: list[ir.Clause] = []
        for clause in node.generators:
            iterable = self.expr(clause.iter)
            self.names.iterated(iterable)
            conditions = tuple([self.expr(condition) for condition in clause.ifs])
            clauses.append(ir.Clause(self.expr(clause.target), iterable, conditions))
        is_dict = type(node) is ast.DictComp
        key = self.expr(node.key) if is_dict else None
        element = self.expr(node.value if is_dict else node.elt)
        return ir.Comprehension(at, _COMPREHENSIONS[type(node)], element, key, tuple(clauses))

    def walrus(self, node: ast.NamedExpr, at: int) -> ir.Expr:
        walrus = ir.Walrus(at, self.expr(node.target), self.expr(node.value))
        self.names.bind(walrus)
        return walrus

    def yield_(self, node: ast.Yield, at: int) -> ir.Expr:
        self.names.yields = True
        return ir.Yield(at, self.expr(node.value) if node.value else None, False)

    def yield_from(self, node: ast.YieldFrom, at: int) -> ir.Expr:
        self.names.yields = True
        return ir.Yield(at, self.expr(node.value), True)


def in_order(node: ast.Call) -> list[ast.expr | ast.keyword]:
    """The arguments as they stand in the text: ``f(a=1, *rest)`` lists the keyword first."""
    args: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
    if node.args and node.keywords and _place(node.args[-1]) > _place(node.keywords[0]):
        args.sort(key=_place)
    return args


def _place(node: ast.expr | ast.keyword) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _captures(pattern: ast.pattern) -> tuple[str, ...]:
    """The names that a pattern binds."""
    names: set[str] = set()
    for node in ast.walk(pattern):
        name = node.rest if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
        if isinstance(name, str):
            names.add(name)
    return tuple(sorted(names))


_L = _Lowering
_COMPREHENSIONS: dict[type, Literal["list", "set", "dict", "generator"]] = {
    ast.ListComp: "list", ast.SetComp: "set", ast.DictComp: "dict", ast.GeneratorExp: "generator",
}  # fmt: skip
_STATEMENTS: dict[type, Callable[[_Lowering, Any, int], ir.Stmt]] = {
    ast.Expr: lambda s, n, at: ir.Evaluate(at, s.expr(n.value)),
    ast.Assign: _L.assign,
    ast.AnnAssign: _L.ann_assign,
    ast.AugAssign: _L.aug_assign,
    ast.Delete: _L.delete,
    ast.Return: _L.return_,
    ast.Raise: _L.raise_,
    ast.Assert: lambda s, n, at: ir.Assert(at, s.expr(n.test)),
    ast.If: _L.if_,
    ast.For: _L.for_,
    ast.AsyncFor: _L.for_,
    ast.While: _L.while_,
    ast.With: _L.with_,
    ast.AsyncWith: _L.with_,
    ast.Try: _L.try_,
    ast.Match: _L.match,
    ast.Break: lambda s, n, at: ir.Jump(at, "break"),
    ast.Continue: lambda s, n, at: ir.Jump(at, "continue"),
    ast.Import: _L.import_,
    ast.ImportFrom: _L.import_from,
    ast.Global: lambda s, n, at: ir.Outer(at, "global", tuple(n.names)),
    ast.Nonlocal: lambda s, n, at: ir.Outer(at, "nonlocal", tuple(n.names)),
    ast.FunctionDef: _L.function,
    ast.AsyncFunctionDef: _L.function,
    ast.ClassDef: _L.class_,
}
if sys.version_info >= (3, 11):
    _STATEMENTS[ast.TryStar] = _L.try_
_EXPRESSIONS: dict[type, Callable[[_Lowering, Any, int], ir.Expr]] = {
    ast.Name: _L.name,
    ast.Attribute: _L.attribute,
    ast.Subscript: _L.subscript,
    ast.Call: _L.call,
    ast.Constant: lambda s, n, at: ir.Constant(at, ir.literal(n.value)),
    ast.JoinedStr: _L.formatted,
    ast.Tuple: _L.tuple_,
    ast.List: _L.list_,
    ast.Set: _L.set_,
    ast.Dict: _L.dict_,
    ast.BinOp: _L.operation,
    ast.BoolOp: _L.operation,
    ast.UnaryOp: _L.unary,
    ast.Compare: _L.comparison,
    ast.IfExp: _L.conditional,
    ast.Lambda: _L.lambda_,
    ast.ListComp: _L.comprehension,
    ast.SetComp: _L.comprehension,
    ast.DictComp: _L.comprehension,
    ast.GeneratorExp: _L.comprehension,
    ast.Yield: _L.yield_,
    ast.YieldFrom: _L.yield_from,
    ast.Await: lambda s, n, at: ir.Await(at, s.expr(n.value)),
    ast.NamedExpr: _L.walrus,
}
