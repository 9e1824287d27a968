"""Conditions of ``if``: true, false, or None where the script does not show which."""

from __future__ import annotations

import fnmatch

from tree_sitter import Node

from estimator.launch.base import Arg
from estimator.launch.shell_arith import COMPARISONS, evaluate, number_of
from estimator.launch.shell_tree import text_of
from estimator.launch.shell_words import Words


def truth(node: Node, words: Words) -> bool | None:
    """Whether a condition holds. An unset variable counts as empty for ``-z`` and ``-n``: the file as it stands."""
    handler = {
        "test_command": _test,
        "compound_statement": _test,
        "negated_command": _negated,
        "list": _list,
        "command": _command,
        "binary_expression": _binary,
        "unary_expression": _unary,
        "parenthesized_expression": _inner,
    }.get(node.type)
    return handler(node, words) if handler else None


def _test(node: Node, words: Words) -> bool | None:
    named = [child for child in node.children if child.is_named]
    if node.children and node.children[0].type == "((":
        number = evaluate(named[0], words.state) if len(named) == 1 else None
        return None if number is None else bool(number)
    return truth(named[0], words) if len(named) == 1 and node.type == "test_command" else None


def _inner(node: Node, words: Words) -> bool | None:
    named = [child for child in node.children if child.is_named]
    return truth(named[0], words) if len(named) == 1 else None


def _negated(node: Node, words: Words) -> bool | None:
    value = truth(node.children[-1], words)
    return None if value is None else not value


def _list(node: Node, words: Words) -> bool | None:
    left, right = truth(node.children[0], words), truth(node.children[-1], words)
    return _both(left, right) if node.children[1].type == "&&" else _either(left, right)


def _both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _either(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _command(node: Node, words: Words) -> bool | None:
    name = text_of(node)
    return {"true": True, "false": False, ":": True}.get(name)


def _operand(node: Node, words: Words) -> Arg:
    return words.value(node, words.line(node))


def _binary(node: Node, words: Words) -> bool | None:
    if len(node.children) != 3:
        return None
    sign = text_of(node.children[1])
    if sign in {"&&", "||", "-a", "-o"}:
        left, right = truth(node.children[0], words), truth(node.children[2], words)
        return _both(left, right) if sign in {"&&", "-a"} else _either(left, right)
    first, second = _operand(node.children[0], words), _operand(node.children[2], words)
    if not first.is_known or not second.is_known:
        return None
    return _compare(first.text, sign, second.text)


def _compare(left: str, sign: str, right: str) -> bool | None:
    if sign in COMPARISONS:
        numbers = number_of(left), number_of(right)
        return None if numbers[0] is None or numbers[1] is None else COMPARISONS[sign](numbers[0], numbers[1])
    if sign in {"=", "==", "!="}:
        if len(right) > 256 or right.count("*") > 4:
            return None
        is_equal = fnmatch.fnmatchcase(left, right)
        return is_equal if sign != "!=" else not is_equal
    return None


def _unary(node: Node, words: Words) -> bool | None:
    sign, operand = text_of(node.children[0]), node.children[-1]
    if sign == "!":
        value = truth(operand, words)
        return None if value is None else not value
    if sign not in {"-z", "-n"}:
        return None
    value_of = _operand(operand, words)
    if value_of.unknown:
        is_unset = "is not set in the file" in value_of.unknown
        return sign == "-z" if is_unset else None
    return (value_of.text == "") == (sign == "-z")
