"""The parts of compound statements, as the grammar lays them out."""

from __future__ import annotations

import re

from tree_sitter import Node

from estimator.launch.shell_tree import descendants, line_of, text_of


def clauses(node: Node) -> tuple[list[tuple[Node | None, list[Node]]], list[Node]]:
    clauses: list[tuple[Node | None, list[Node]]] = []
    otherwise: list[Node] = []
    clauses.append(condition_and_body(node))
    for child in node.children:
        if child.type == "elif_clause":
            clauses.append(condition_and_body(child))
        elif child.type == "else_clause":
            otherwise = list(child.children)
    return clauses, otherwise


def condition_and_body(node: Node) -> tuple[Node | None, list[Node]]:
    names = [child.type for child in node.children]
    at = names.index("then") if "then" in names else len(names)
    before = [child for child in node.children[:at] if child.is_named]
    body = [child for child in node.children[at + 1 :] if child.type not in {"elif_clause", "else_clause"}]
    return (before[0] if len(before) == 1 else None), body


def case_item(node: Node) -> tuple[list[str], list[Node]]:
    names = [child.type for child in node.children]
    at = names.index(")") if ")" in names else 0
    patterns = [text_of(child).strip("\"'") for child in node.children[:at] if child.is_named]
    return patterns, list(node.children[at + 1 :])


def for_parts(node: Node) -> tuple[str, list[Node], list[Node]]:
    variable = node.child_by_field_name("variable")
    bodies = [child for child in node.children if child.type in {"do_group", "compound_statement"}]
    names = [child.type for child in node.children]
    start = names.index("in") + 1 if "in" in names else len(names)
    values = [child for child in node.children[start:] if child.is_named and child not in bodies]
    return text_of(variable) if variable is not None else "", values, bodies


def assumption(condition: Node | None, line_offset: int) -> str:
    if condition is None:
        return "a condition holds"
    shown = re.sub(r"\s+", " ", text_of(condition))[:80]
    return f"line {line_offset or line_of(condition)}: {shown}"


def only_leaves(node: Node) -> bool:
    """``|| exit 1`` and ``|| { echo …; exit 1; }``: the branch that ends the script is not a reading of interest."""
    return any(text_of(name) in {"exit", "return"} for name in descendants(node, "command_name"))
