"""LibCST tree to IR, in one traversal with one dispatch table.

No visitor, matcher or metadata provider: they cost more than the parse itself. Numbers are given to nodes in the order
of the traversal, so lowering the same bytes again gives the same numbers, and `nodes[number]` is the tree's node.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import libcst as cst

from analyzer.syntax import ir
from analyzer.syntax.scope import Names

_BINARY = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "FloorDivide": "//", "Modulo": "%", "Power": "**",
    "MatrixMultiply": "@", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LeftShift": "<<", "RightShift": ">>",
    "And": "and", "Or": "or", "Equal": "==", "NotEqual": "!=", "LessThan": "<", "LessThanEqual": "<=",
    "GreaterThan": ">", "GreaterThanEqual": ">=", "In": "in", "NotIn": "not in", "Is": "is", "IsNot": "is not",
    "Not": "not", "Minus": "-", "Plus": "+", "BitInvert": "~",
}  # fmt: skip


def lower(module: cst.Module, path: str) -> tuple[ir.Unit, list[cst.CSTNode]]:
    """The IR of a module, and the LibCST node of every number."""
    lowering = _Lowering()
    body = lowering.block(module.body)
    return ir.Unit(path, body, len(lowering.nodes), lowering.names.frozen_uses()), lowering.nodes


class _Lowering:
    def __init__(self) -> None:
        self.nodes: list[cst.CSTNode] = []
        self.names = Names()

    def number(self, node: cst.CSTNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    # --- statements -------------------------------------------------------------------------------------------

    def block(self, body: Any) -> ir.Block:
        """A `cst.BaseSuite`, or the statements of a module."""
        statements = body if isinstance(body, (list, tuple)) else body.body
        result: list[ir.Stmt] = []
        for statement in statements:
            if type(statement) is cst.SimpleStatementLine:
                for small in statement.body:
                    self.statement(small, result)
            else:
                self.statement(statement, result)
        return tuple(result)

    def statement(self, node: Any, into: list[ir.Stmt]) -> None:
        handler = _STATEMENTS.get(type(node))
        if handler is not None:
            statement = handler(self, node, self.number(node))
            self.names.bind(statement)
            into.append(statement)

    @contextmanager
    def scope(self) -> Iterator[Names]:
        """Collect the names of a function, class or lambda apart from those around it."""
        around, self.names = self.names, Names()
        yield self.names
        around.absorb(self.names)
        self.names = around

    def assign(self, node: cst.Assign, at: int) -> ir.Stmt:
        targets = tuple(self.expr(target.target) for target in node.targets)
        return ir.Assign(at, targets, self.expr(node.value))

    def ann_assign(self, node: cst.AnnAssign, at: int) -> ir.Stmt:
        value = self.expr(node.value) if node.value else None
        return ir.Assign(at, (self.expr(node.target),), value, self.expr(node.annotation.annotation))

    def aug_assign(self, node: cst.AugAssign, at: int) -> ir.Stmt:
        op = _BINARY[type(node.operator).__name__.removesuffix("Assign")]
        return ir.Augment(at, self.expr(node.target), op, self.expr(node.value))

    def delete(self, node: cst.Del, at: int) -> ir.Stmt:
        target = node.target
        if isinstance(target, (cst.Tuple, cst.List)):
            return ir.Delete(at, self.elements(target.elements))
        return ir.Delete(at, (self.expr(target),))

    def return_(self, node: cst.Return, at: int) -> ir.Stmt:
        return ir.Return(at, self.expr(node.value) if node.value else None)

    def raise_(self, node: cst.Raise, at: int) -> ir.Stmt:
        return ir.Raise(at, self.expr(node.exc) if node.exc else None)

    def if_(self, node: cst.If, at: int) -> ir.Stmt:
        """A chain of `elif` is told without going as deep."""
        above: list[tuple[int, ir.Expr, ir.Block]] = []
        while isinstance(node.orelse, cst.If):
            above.append((at, self.expr(node.test), self.block(node.body)))
            node = node.orelse
            at = self.number(node)
        chain = ir.If(at, self.expr(node.test), self.block(node.body), self.orelse(node.orelse))
        for at, test, body in reversed(above):
            chain = ir.If(at, test, body, (chain,))
        return chain

    def orelse(self, node: cst.If | cst.Else | None) -> ir.Block:
        if node is None:
            return ()
        if isinstance(node, cst.Else):
            return self.block(node.body)
        return (self.if_(node, self.number(node)),)

    def for_(self, node: cst.For, at: int) -> ir.Stmt:
        iterable = self.expr(node.iter)
        self.names.iterated(iterable)
        return ir.For(at, self.expr(node.target), iterable, self.block(node.body), self.orelse(node.orelse))

    def while_(self, node: cst.While, at: int) -> ir.Stmt:
        return ir.While(at, self.expr(node.test), self.block(node.body), self.orelse(node.orelse))

    def with_(self, node: cst.With, at: int) -> ir.Stmt:
        items = tuple(
            (self.expr(item.item), self.expr(item.asname.name) if item.asname else None) for item in node.items
        )
        return ir.With(at, items, self.block(node.body))

    def try_(self, node: cst.Try | cst.TryStar, at: int) -> ir.Stmt:
        body = self.block(node.body)
        handlers = tuple(self.handler(handler) for handler in node.handlers)
        final = self.block(node.finalbody.body) if node.finalbody else ()
        return ir.Try(at, body, handlers, self.orelse(node.orelse), final)

    def handler(self, node: cst.ExceptHandler | cst.ExceptStarHandler) -> ir.Handler:
        bound = node.name.name if node.name else None
        name = bound.value if isinstance(bound, cst.Name) else None
        number, kind = self.number(node), self.expr(node.type) if node.type else None
        handler = ir.Handler(number, kind, name, self.block(node.body))
        self.names.bind(handler)
        return handler

    def match(self, node: cst.Match, at: int) -> ir.Stmt:
        cases = tuple(
            ir.Case(_captures(case.pattern), self.expr(case.guard) if case.guard else None, self.block(case.body))
            for case in node.cases
        )
        for case in cases:
            self.names.bind(case)
        return ir.Match(at, self.expr(node.subject), cases)

    def import_(self, node: cst.Import, at: int) -> ir.Stmt:
        names = tuple(
            (_dotted(alias.name), _dotted(alias.asname.name) if alias.asname else None) for alias in node.names
        )
        return ir.Import(at, names)

    def import_from(self, node: cst.ImportFrom, at: int) -> ir.Stmt:
        module = _dotted(node.module) if node.module else ""
        if isinstance(node.names, cst.ImportStar):
            return ir.ImportFrom(at, module, len(node.relative), (("*", "*"),))
        names = tuple(
            (_dotted(alias.name), _dotted(alias.asname.name if alias.asname else alias.name)) for alias in node.names
        )
        return ir.ImportFrom(at, module, len(node.relative), names)

    def function(self, node: cst.FunctionDef, at: int) -> ir.Stmt:
        decorators = tuple(self.expr(decorator.decorator) for decorator in node.decorators)
        params = self.params(node.params)
        returns = self.expr(node.returns.annotation) if node.returns else None
        with self.scope() as inner:
            body = self.block(node.body)
        names = (inner.bound | {param.name for param in params}) - inner.outer
        return ir.FunctionDef(
            at, node.name.value, params, decorators, body, returns, frozenset(names), frozenset(inner.outer),
            inner.yields, node.asynchronous is not None, inner.frozen_uses(), inner.has_inner, len(self.nodes) - 1,
        )  # fmt: skip

    def params(self, node: cst.Parameters) -> tuple[ir.Param, ...]:
        found = [self.param(param, "") for param in (*node.posonly_params, *node.params)]
        if isinstance(node.star_arg, cst.Param):
            found.append(self.param(node.star_arg, "*"))
        found += [self.param(param, "kw") for param in node.kwonly_params]
        if node.star_kwarg is not None:
            found.append(self.param(node.star_kwarg, "**"))
        return tuple(found)

    def param(self, node: cst.Param, kind: Literal["", "*", "**", "kw"]) -> ir.Param:
        default = self.expr(node.default) if node.default else None
        annotation = self.expr(node.annotation.annotation) if node.annotation else None
        return ir.Param(node.name.value, self.number(node), default, annotation, kind)

    def class_(self, node: cst.ClassDef, at: int) -> ir.Stmt:
        decorators = tuple(self.expr(decorator.decorator) for decorator in node.decorators)
        bases = tuple(self.arg(arg) for arg in (*node.bases, *node.keywords))
        with self.scope():
            body = self.block(node.body)
        return ir.ClassDef(at, node.name.value, bases, decorators, body)

    # --- expressions ------------------------------------------------------------------------------------------

    def expr(self, node: Any) -> ir.Expr:
        handler = _EXPRESSIONS.get(type(node))
        at = self.number(node)
        return handler(self, node, at) if handler else ir.Opaque(at)

    def attribute(self, node: cst.Attribute, at: int) -> ir.Expr:
        return ir.Attribute(at, self.expr(node.value), node.attr.value)

    def subscript(self, node: cst.Subscript, at: int) -> ir.Expr:
        value = self.expr(node.value)
        first = node.slice[0].slice
        if len(node.slice) > 1 or node.slice[0].comma is not cst.MaybeSentinel.DEFAULT:
            indices = tuple(self.index(element.slice) for element in node.slice)
        elif isinstance(first, cst.Index) and isinstance(first.value, cst.Tuple) and first.value.elements:
            indices = tuple(self.expr(element.value) for element in first.value.elements)
        else:
            return ir.Subscript(at, value, self.index(first))
        return ir.Subscript(at, value, ir.Display(at, "tuple", indices))

    def index(self, node: cst.BaseSlice) -> ir.Expr:
        if isinstance(node, cst.Index):
            return self.expr(node.value)
        assert isinstance(node, cst.Slice)
        bounds = (self.expr(part) if part else None for part in (node.lower, node.upper, node.step))
        return ir.Slice(self.number(node), *bounds)

    def call(self, node: cst.Call, at: int) -> ir.Expr:
        call = ir.Call(at, self.expr(node.func), tuple([self.arg(arg) for arg in node.args]))
        self.names.called(call)
        return call

    def arg(self, node: cst.Arg) -> ir.Arg:
        star: Any = node.star
        return ir.Arg(self.expr(node.value), node.keyword.value if node.keyword else None, star)

    def number_(self, node: Any, at: int) -> ir.Expr:
        return ir.Constant(at, ir.literal(node.evaluated_value))

    def string(self, node: cst.SimpleString, at: int) -> ir.Expr:
        return ir.Constant(at, node.evaluated_value)

    def strings(self, node: Any, at: int) -> ir.Expr:
        """Adjacent strings are one, as they are for Python: texts that meet are one text and share the number."""
        parts: list[ir.Expr | str] = []
        for piece in _pieces(node):
            if isinstance(piece, cst.SimpleString):
                value = piece.evaluated_value
                if isinstance(value, bytes):
                    return ir.Constant(at, b"".join(each.evaluated_value for each in _pieces(node)))
                parts.append(value)
            else:
                for part in piece.parts:
                    parts += self.string_part(part, piece)
        if isinstance(node, cst.ConcatenatedString) and not any(
            isinstance(piece, cst.FormattedString) for piece in _pieces(node)
        ):
            return ir.Constant(at, "".join(part for part in parts if isinstance(part, str)))
        return ir.Joined(at, tuple(_constants(parts, at)))

    def string_part(self, part: Any, around: cst.FormattedString) -> list[ir.Expr | str]:
        if isinstance(part, cst.FormattedStringText):
            return [_unescaped(part.value, around)]
        shown: list[ir.Expr | str] = []
        if part.equal is not None:  # ``{x=}`` writes its own text
            empty = cst.Module([])
            shown.append(
                "".join(map(empty.code_for_node, (part.whitespace_before_expression, part.expression, part.equal)))
            )
        return [*shown, self.expr(part.expression)]

    def tuple_(self, node: cst.Tuple, at: int) -> ir.Expr:
        return ir.Display(at, "tuple", self.elements(node.elements))

    def list_(self, node: cst.List, at: int) -> ir.Expr:
        return ir.Display(at, "list", self.elements(node.elements))

    def set_(self, node: cst.Set, at: int) -> ir.Expr:
        return ir.Display(at, "set", self.elements(node.elements))

    def elements(self, nodes: Any) -> tuple[ir.Expr, ...]:
        return tuple(
            ir.Starred(self.number(node), self.expr(node.value))
            if isinstance(node, cst.StarredElement)
            else self.expr(node.value)
            for node in nodes
        )

    def dict_(self, node: cst.Dict, at: int) -> ir.Expr:
        items = tuple(
            (self.expr(item.key), self.expr(item.value))
            if isinstance(item, cst.DictElement)
            else (None, self.expr(item.value))
            for item in node.elements
        )
        return ir.DictDisplay(at, items)

    def operation(self, node: cst.BinaryOperation | cst.BooleanOperation, at: int) -> ir.Expr:
        """Long chains lean left: walk down the left side instead of recursing."""
        spine: list[tuple[int, Any]] = [(at, node)]
        left: Any = node.left
        while type(left) in (cst.BinaryOperation, cst.BooleanOperation):
            spine.append((self.number(left), left))
            left = left.left
        result = self.expr(left)
        for number, inner in reversed(spine):
            result = ir.Operation(number, _BINARY[type(inner.operator).__name__], result, self.expr(inner.right))
        return result

    def unary(self, node: cst.UnaryOperation, at: int) -> ir.Expr:
        return ir.Operation(at, _BINARY[type(node.operator).__name__], self.expr(node.expression), None)

    def comparison(self, node: cst.Comparison, at: int) -> ir.Expr:
        left = self.expr(node.left)
        result: ir.Expr | None = None
        for target in node.comparisons:
            right = self.expr(target.comparator)
            one = ir.Operation(at, _BINARY[type(target.operator).__name__], left, right)
            result = one if result is None else ir.Operation(at, "and", result, one)
            left = right
        return result or left

    def conditional(self, node: cst.IfExp, at: int) -> ir.Expr:
        return ir.Conditional(at, self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def lambda_(self, node: cst.Lambda, at: int) -> ir.Expr:
        params = self.params(node.params)
        with self.scope():
            return ir.Lambda(at, params, self.expr(node.body))

    def comprehension(self, node: Any, at: int) -> ir.Expr:
        kinds: dict[type, Literal["list", "set", "dict", "generator"]]
        kinds = {cst.ListComp: "list", cst.SetComp: "set", cst.DictComp: "dict", cst.GeneratorExp: "generator"}
        clauses: list[ir.Clause] = []
        clause: cst.CompFor | None = node.for_in
        while clause is not None:
            iterable = self.expr(clause.iter)
            self.names.iterated(iterable)
            conditions = tuple(self.expr(condition.test) for condition in clause.ifs)
            clauses.append(ir.Clause(self.expr(clause.target), iterable, conditions))
            clause = clause.inner_for_in
        is_dict = isinstance(node, cst.DictComp)
        key = self.expr(node.key) if is_dict else None
        element = self.expr(node.value if is_dict else node.elt)
        return ir.Comprehension(at, kinds[type(node)], element, key, tuple(clauses))

    def walrus(self, node: cst.NamedExpr, at: int) -> ir.Expr:
        walrus = ir.Walrus(at, self.expr(node.target), self.expr(node.value))
        self.names.bind(walrus)
        return walrus

    def yield_(self, node: cst.Yield, at: int) -> ir.Expr:
        self.names.yields = True
        if isinstance(node.value, cst.From):
            return ir.Yield(at, self.expr(node.value.item), True)
        return ir.Yield(at, self.expr(node.value) if node.value else None, False)


def _dotted(node: Any) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return str(node.value)


def _captures(pattern: Any) -> tuple[str, ...]:
    """The names that a pattern binds. Patterns are rare: the generic walk over children is fine here."""
    names: set[str] = set()
    work = [pattern]
    while work:
        node = work.pop()
        bound = node.rest if isinstance(node, cst.MatchMapping) else getattr(node, "name", None)
        if isinstance(bound, cst.Name) and isinstance(node, (cst.MatchAs, cst.MatchStar, cst.MatchMapping)):
            names.add(bound.value)
        work.extend(node.children)
    return tuple(sorted(names))


def _pieces(node: Any) -> list[Any]:
    """The strings of a chain of adjacent strings, which leans right."""
    found = []
    while isinstance(node, cst.ConcatenatedString):
        found.append(node.left)
        node = node.right
    return [*found, node]


def _constants(parts: list[ir.Expr | str], at: int) -> Iterator[ir.Expr]:
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        if text:
            yield ir.Constant(at, text)
        text = ""
        yield part
    if text:
        yield ir.Constant(at, text)


def _unescaped(text: str, around: cst.FormattedString) -> str:
    """The text between the braces of an f-string, as Python reads it."""
    text = text.replace("{{", "{").replace("}}", "}")
    if "\\" not in text or "r" in around.prefix:
        return text
    quote = around.end
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value: object = ast.literal_eval(quote + text + quote)
    return str(value)


_L = _Lowering
_STATEMENTS: dict[type, Callable[[_Lowering, Any, int], ir.Stmt]] = {
    cst.Expr: lambda s, n, at: ir.Evaluate(at, s.expr(n.value)),
    cst.Assign: _L.assign,
    cst.AnnAssign: _L.ann_assign,
    cst.AugAssign: _L.aug_assign,
    cst.Del: _L.delete,
    cst.Return: _L.return_,
    cst.Raise: _L.raise_,
    cst.Assert: lambda s, n, at: ir.Assert(at, s.expr(n.test)),
    cst.If: _L.if_,
    cst.For: _L.for_,
    cst.While: _L.while_,
    cst.With: _L.with_,
    cst.Try: _L.try_,
    cst.TryStar: _L.try_,
    cst.Match: _L.match,
    cst.Break: lambda s, n, at: ir.Jump(at, "break"),
    cst.Continue: lambda s, n, at: ir.Jump(at, "continue"),
    cst.Import: _L.import_,
    cst.ImportFrom: _L.import_from,
    cst.Global: lambda s, n, at: ir.Outer(at, "global", tuple(item.name.value for item in n.names)),
    cst.Nonlocal: lambda s, n, at: ir.Outer(at, "nonlocal", tuple(item.name.value for item in n.names)),
    cst.FunctionDef: _L.function,
    cst.ClassDef: _L.class_,
}
_EXPRESSIONS: dict[type, Callable[[_Lowering, Any, int], ir.Expr]] = {
    cst.Name: lambda s, n, at: _named(n.value, at),
    cst.Attribute: _L.attribute,
    cst.Subscript: _L.subscript,
    cst.Call: _L.call,
    cst.Integer: _L.number_,
    cst.Float: _L.number_,
    cst.Imaginary: _L.number_,
    cst.SimpleString: _L.string,
    cst.ConcatenatedString: _L.strings,
    cst.FormattedString: _L.strings,
    cst.Ellipsis: lambda s, n, at: ir.Constant(at, ...),
    cst.Tuple: _L.tuple_,
    cst.List: _L.list_,
    cst.Set: _L.set_,
    cst.Dict: _L.dict_,
    cst.BinaryOperation: _L.operation,
    cst.BooleanOperation: _L.operation,
    cst.UnaryOperation: _L.unary,
    cst.Comparison: _L.comparison,
    cst.IfExp: _L.conditional,
    cst.Lambda: _L.lambda_,
    cst.ListComp: _L.comprehension,
    cst.SetComp: _L.comprehension,
    cst.DictComp: _L.comprehension,
    cst.GeneratorExp: _L.comprehension,
    cst.Yield: _L.yield_,
    cst.Await: lambda s, n, at: ir.Await(at, s.expr(n.expression)),
    cst.NamedExpr: _L.walrus,
}
_LITERALS = {"True": True, "False": False, "None": None}


def _named(name: str, at: int) -> ir.Expr:
    return ir.Constant(at, _LITERALS[name]) if name in _LITERALS else ir.Name(at, name)
