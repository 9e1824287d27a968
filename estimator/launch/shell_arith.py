"""``$(( … ))`` and ``[ … ]`` over what is known: a number, a truth value, or None."""

from __future__ import annotations

import operator
from collections.abc import Callable

from tree_sitter import Node

from estimator.launch.shell_state import State
from estimator.launch.shell_tree import text_of

_LIMIT = 2**63
_MAX_DEPTH = 40


def _divide(left: int, right: int) -> int:
    return int(left / right) if abs(left) < 2**52 else left // right


_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": lambda left, right: left - right * _divide(left, right),
    "<": lambda left, right: int(left < right),
    ">": lambda left, right: int(left > right),
    "<=": lambda left, right: int(left <= right),
    ">=": lambda left, right: int(left >= right),
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "&&": lambda left, right: int(bool(left) and bool(right)),
    "||": lambda left, right: int(bool(left) or bool(right)),
    "**": lambda left, right: left**right if 0 <= right <= 62 and abs(left) <= 2**16 else _LIMIT,
    "<<": lambda left, right: left << right if 0 <= right < 63 else _LIMIT,
    ">>": lambda left, right: left >> right if 0 <= right < 63 else 0,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


def number_of(text: str) -> int | None:
    """A shell integer; None for anything else."""
    stripped = text.strip()
    digits = stripped.removeprefix("-").removeprefix("+")
    return int(stripped) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


def evaluate(node: Node, state: State, depth: int = 0) -> int | None:
    """The value of an arithmetic expansion or expression."""
    if depth > _MAX_DEPTH:
        return None
    if node.type in {"arithmetic_expansion", "parenthesized_expression", "compound_statement"}:
        inner = [child for child in node.children if child.is_named]
        return evaluate(inner[0], state, depth + 1) if len(inner) == 1 else None
    if node.type == "binary_expression":
        return _binary(node, state, depth)
    if node.type == "unary_expression":
        return _unary(node, state, depth)
    if node.type == "ternary_expression":
        return _ternary(node, state, depth)
    return _leaf(node, state)


def _leaf(node: Node, state: State) -> int | None:
    text = text_of(node).strip()
    number = number_of(text)
    if number is not None:
        return number
    name = text.strip("${}")
    value = state.look_up(name)
    return number_of(value.text) if value is not None and value.is_known else None


def _binary(node: Node, state: State, depth: int) -> int | None:
    if len(node.children) != 3:
        return None
    left = evaluate(node.children[0], state, depth + 1)
    right = evaluate(node.children[2], state, depth + 1)
    apply = _BINARY.get(node.children[1].type) or _BINARY.get(text_of(node.children[1]))
    if left is None or right is None or apply is None:
        return None
    if apply in {_BINARY["/"], _BINARY["%"]} and right == 0:
        return None
    result = apply(left, right)
    return result if abs(result) < _LIMIT else None


def _unary(node: Node, state: State, depth: int) -> int | None:
    value = evaluate(node.children[-1], state, depth + 1)
    sign = text_of(node.children[0])
    if value is None or sign not in {"-", "+", "!"}:
        return None
    return {"-": -value, "+": value, "!": int(not value)}[sign]


def _ternary(node: Node, state: State, depth: int) -> int | None:
    parts = [child for child in node.children if child.is_named]
    if len(parts) != 3:
        return None
    chosen = evaluate(parts[0], state, depth + 1)
    return None if chosen is None else evaluate(parts[1] if chosen else parts[2], state, depth + 1)
