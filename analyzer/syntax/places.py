"""Where nodes stand, by Python's own tree: for files that report something but need no LibCST.

The two trees agree on the span of every form but those that parentheses or commas belong to (a tuple, a generator, the
inside of ``a and b and c``): these have no span here. That of a parameter
is its name, where no star is before it. ``tests/analyzer/test_native.py`` compares them.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property, lru_cache
from typing import Any

from analyzer.findings import Position, Span
from analyzer.nesting import decode
from analyzer.syntax import native

_UNSURE = (ast.Tuple, ast.GeneratorExp, ast.arg, tuple)
_BEFORE_PARAMETER = re.compile(r"(?:[(,]|\blambda) *\Z")
_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp)
_CHAINS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
_LINE_END = re.compile("\r\n|\r|\n")


class Places:
    """The places of one file's nodes, by number."""

    def __init__(self, nodes: list[Any], source: bytes) -> None:
        self._nodes = nodes
        self._source = source

    @cached_property
    def _lines(self) -> list[str]:
        return _LINE_END.split(decode(self._source))

    def span(self, path: str, at: int) -> Span | None:
        """The span of a node, where it is sure."""
        node = self._nodes[at]
        if isinstance(node, native.Inside):
            node = node.node if self._is_found(node) else None
        if isinstance(node, ast.arg):
            return self._parameter(path, node)
        if node is None or isinstance(node, _UNSURE):
            return None
        start = self._position(node.lineno, node.col_offset)
        return Span(path, start, self._position(node.end_lineno, node.end_col_offset))

    def _parameter(self, path: str, node: ast.arg) -> Span | None:
        """LibCST ends it behind its name, and begins it at its star, which may stand on an earlier line."""
        at, text = node.lineno - 1, self._lines[node.lineno - 1]
        if not node.arg.isascii() or not text.isascii():
            return None
        before = text[: node.col_offset]
        if not before.strip() and at:
            before = self._lines[at - 1]
            if "#" in before or not before.rstrip().endswith(("(", ",")):
                return None
        elif _BEFORE_PARAMETER.search(before) is None:
            return None
        start = Position(node.lineno, node.col_offset)
        return Span(path, start, Position(node.lineno, node.col_offset + len(node.arg)))

    def is_loose(self, at: int) -> bool | None:
        """Whether ``.x`` behind a node would bind to a part of it; None where that is not sure."""
        node = self._nodes[at]
        if node is None or isinstance(node, _UNSURE):
            return None
        if isinstance(node, ast.Constant):
            return not (node.value is None or isinstance(node.value, bool))  # these are names to LibCST
        return isinstance(node, ast.expr) and not isinstance(node, (*_ATOMS, ast.Slice))  # a slice is no expression

    def text(self, at: int) -> str | None:
        """The source of a node without parentheses around it, where its span is sure; lines end in a line feed."""
        span = None if isinstance(self._nodes[at], ast.arg) else self.span("", at)  # its text goes on behind its name
        return None if span is None else self._between(span.start, span.end)

    def _between(self, first: Position, last: Position) -> str:
        lines = self._lines[first.line - 1 : last.line]
        lines[-1] = lines[-1][: last.column]
        lines[0] = lines[0][first.column :]
        return "\n".join(lines)

    def _is_found(self, inside: native.Inside) -> bool:
        """Whether a node of an f-string stands where Python says: its text is there, and nowhere else in the string, or
        nowhere else behind a brace."""
        node, string = inside
        if isinstance(node, _UNSURE):
            return False
        try:
            first, last = self._ends(string)
            start, end = self._ends(node)
            text = self._between(start, end)
            read = ast.parse(f"({text})", mode="eval").body
        except (IndexError, SyntaxError, ValueError, RecursionError, MemoryError):
            return False
        is_within = (first.line, first.column) <= (start.line, start.column) and (
            (end.line, end.column) <= (last.line, last.column)
        )
        if not is_within or ast.dump(read) != ast.dump(node):
            return False
        whole = self._between(first, last)
        is_field = self._between(first, start).rstrip().endswith("{")
        return whole.count(text) == 1 or (is_field and len(re.findall(r"\{\s*" + re.escape(text), whole)) == 1)

    def _ends(self, node: ast.expr) -> tuple[Position, Position]:
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._position(node.lineno, node.col_offset), self._position(end_line, end)

    def call(self, at: int) -> ast.Call | None:
        """The call of a number, where it is one."""
        node = self._nodes[at]
        return node if isinstance(node, ast.Call) else None

    def is_node(self, at: int, node: ast.AST) -> bool:
        """Whether a number is that of a node."""
        return at < len(self._nodes) and self._nodes[at] is node

    def statement_of(self, at: int) -> int | None:
        """The number of the expression statement that a node is, if it is one."""
        before = self._nodes[at - 1] if at else None
        return at - 1 if isinstance(before, ast.Expr) and before.value is self._nodes[at] else None

    def text_of_head(self, node: ast.expr, whole: ast.expr) -> str | None:
        """The source of the part that `whole` begins with, where that is a chain on one line without parentheses."""
        begins = (node.lineno, node.col_offset) == (whole.lineno, whole.col_offset)
        if not begins or node.end_lineno != node.lineno or not isinstance(node, _CHAINS):
            return None
        first, last = (
            self._position(node.lineno, node.col_offset),
            self._position(node.lineno, node.end_col_offset or 0),
        )
        return self._lines[node.lineno - 1][first.column : last.column]

    def _position(self, line: int, offset: int) -> Position:
        """Python counts bytes of UTF-8, a span code points."""
        text = self._lines[line - 1]
        return Position(line, offset if text.isascii() else len(text.encode()[:offset].decode()))


@lru_cache(maxsize=8)
def places(source: bytes) -> Places | None:
    """The places of a file; None where Python's parser does not take it."""
    nodes = native.nodes(source)
    return None if nodes is None else Places(nodes, source)
