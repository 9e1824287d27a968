"""Edits in terms of IR node numbers, and their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import libcst as cst

from analyzer.findings import Edit, Span
from analyzer.positions import spans


@dataclass(frozen=True, slots=True)
class InsertAfter:
    """Put text right after a node."""

    node_id: int
    text: str


@dataclass(frozen=True, slots=True)
class InsertBefore:
    """Put text right before a node."""

    node_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Put the source of another node in place of a node."""

    node_id: int
    with_source_of: int


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """Put text in place of a node."""

    node_id: int
    text: str


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """Put a statement on a line of its own before or after the statement `node_id`."""

    where: Literal["before", "after"]
    node_id: int
    text: str


SymbolicEdit = InsertAfter | InsertBefore | Replace | ReplaceText | InsertStatement


def resolve(
    edits: Sequence[SymbolicEdit], module: cst.Module, path: str, node_of: Callable[[int], cst.CSTNode]
) -> tuple[Edit, ...]:
    """The edits with their positions."""
    places = spans(module, path, {node_of(edit.node_id) for edit in edits})
    return tuple(_edit(edit, module, places[node_of(edit.node_id)], node_of) for edit in edits)


def _edit(edit: SymbolicEdit, module: cst.Module, span: Span, node_of: Callable[[int], cst.CSTNode]) -> Edit:
    if isinstance(edit, InsertAfter):
        return Edit(Span(span.path, span.end, span.end), edit.text)
    if isinstance(edit, InsertBefore):
        return Edit(Span(span.path, span.start, span.start), edit.text)
    if isinstance(edit, Replace):
        return Edit(span, module.code_for_node(node_of(edit.with_source_of)))
    if isinstance(edit, InsertStatement):
        indent = " " * span.start.column
        if edit.where == "before":
            return Edit(Span(span.path, span.start, span.start), f"{edit.text}\n{indent}")
        return Edit(Span(span.path, span.end, span.end), f"\n{indent}{edit.text}")
    return Edit(span, edit.text)
