"""Edits in terms of IR node numbers, and their positions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analyzer.findings import Edit, Position, Span
from analyzer.syntax.later import cst


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


_POSTFIX = (".", "[", "(")


def resolve(
    edits: Sequence[SymbolicEdit],
    tree: Callable[[], tuple[cst.Module, Sequence[cst.CSTNode]]],
    spans_of: Callable[[Collection[int]], Mapping[int, Span]],
    is_loose: Callable[[int], bool | None],
    lines: Callable[[], list[str]],
) -> tuple[Edit, ...]:
    """The edits with their positions, which `spans_of` knows, among the `lines` of the file. A line end in a text is
    ``\\n``: `analyzer.fixes.apply` writes the file's own. `tree` is asked for only where nothing else will do: LibCST
    takes longer to read a file than all the rest. `is_loose` knows without it, for most nodes, what `_is_loose` does.
    """
    places = spans_of({edit.node_id for edit in edits})
    text = lines() if any(isinstance(edit, InsertStatement) for edit in edits) else []
    result: list[Edit] = []
    for edit in edits:
        span = places[edit.node_id]
        if isinstance(edit, InsertStatement):
            result.append(_statement(edit, span, text))
        else:
            result += _expression(edit, span, tree, is_loose)
    return tuple(result)


def _expression(
    edit: InsertAfter | InsertBefore | Replace | ReplaceText,
    span: Span,
    tree: Callable[[], tuple[cst.Module, Sequence[cst.CSTNode]]],
    is_loose: Callable[[int], bool | None],
) -> list[Edit]:
    before, after = Span(span.path, span.start, span.start), Span(span.path, span.end, span.end)
    if isinstance(edit, InsertAfter):
        if edit.text.startswith(_POSTFIX):
            loose = is_loose(edit.node_id)
            if _is_loose(tree()[1][edit.node_id]) if loose is None else loose:
                return [Edit(before, "("), Edit(after, f"){edit.text}")]
        return [Edit(after, edit.text)]
    if isinstance(edit, InsertBefore):
        return [Edit(before, edit.text)]
    if isinstance(edit, Replace):
        module, nodes = tree()
        source, target = nodes[edit.with_source_of], nodes[edit.node_id]
        text = module.code_for_node(source)
        # An argument or statement is free of its neighbours; anything looser than an atom may not be, so it is wrapped.
        return [
            Edit(span, f"({text})" if _is_loose(source) and not _is_loose(target) and _needs_wrap(source) else text)
        ]
    return [Edit(span, edit.text)]


def _is_loose(node: cst.CSTNode) -> bool:
    """Whether ``.x`` behind the node would bind to a part of it only. Its own parentheses lie outside its span."""
    atoms = (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.List, cst.Set, cst.Dict, cst.ListComp, cst.SetComp)
    return isinstance(node, cst.BaseExpression) and not isinstance(node, atoms)


def _needs_wrap(node: cst.CSTNode) -> bool:
    """Literals stand anywhere an expression does."""
    return not isinstance(node, (cst.BaseNumber, cst.BaseString, cst.Tuple))


def _statement(edit: InsertStatement, span: Span, text: list[str]) -> Edit:
    """On a line of its own with the statement's indentation; on a shared line (``a; b``, ``if x: a``) behind ``;``."""
    first = text[span.start.line - 1]
    indent = first[: span.start.column]
    rest = text[span.end.line - 1][span.end.column :].strip()
    shares = bool(indent.strip(" \t\f")) or rest.startswith(";")
    if edit.where == "before":
        return Edit(Span(span.path, span.start, span.start), f"{edit.text}; " if shares else f"{edit.text}\n{indent}")
    end = span.end
    if shares:
        return Edit(Span(span.path, end, end), f"; {edit.text}")
    end = Position(end.line, len(text[end.line - 1]))  # behind a comment on the same line
    return Edit(Span(span.path, end, end), f"\n{indent}{edit.text}")
