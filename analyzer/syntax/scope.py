"""Questions about a function body that need no interpretation: which names it binds, and what it uses values for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from analyzer.syntax import ir


@dataclass(frozen=True, slots=True)
class Scope:
    """The names a body binds, those it declares ``global`` or ``nonlocal``, and whether it yields."""

    bound: frozenset[str]
    outer: frozenset[str]
    yields: bool


@cache
def _slots(kind: Any) -> tuple[str, ...]:
    skip = {"at", "locals", "outer", "uses"}
    return tuple(item.name for item in fields(kind) if item.name not in skip)


_INNER = (ir.FunctionDef, ir.ClassDef, ir.Lambda)


def walk(body: ir.Block, into_functions: bool) -> Iterator[object]:
    """Every IR node of a body in no particular order; nested functions, classes and lambdas are yielded, and
    entered only if asked."""
    work: list[object] = list(body)
    while work:
        node = work.pop()
        if isinstance(node, tuple):
            work.extend(node)
            continue
        if not isinstance(node, (ir.Expr, ir.Stmt, ir.Arg, ir.Clause, ir.Handler, ir.Case, ir.Param)):
            continue
        yield node
        if into_functions or not isinstance(node, _INNER):
            kind: Any = type(node)
            work.extend(getattr(node, name) for name in _slots(kind))


def names_in(body: ir.Block) -> Scope:
    """What a function body binds in its own scope."""
    bound: set[str] = set()
    outer: set[str] = set()
    yields = False
    for node in walk(body, into_functions=False):
        if isinstance(node, ir.Outer):
            outer.update(node.names)
        elif isinstance(node, ir.Yield):
            yields = True
        else:
            bound.update(_bindings(node))
    return Scope(frozenset(bound), frozenset(outer), yields)


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


def dotted(node: ir.Expr) -> str | None:
    """``a`` or ``self.a`` as text, where the expression is a plain chain of names."""
    if isinstance(node, ir.Name):
        return node.id
    if isinstance(node, ir.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else None
    return None


def uses_in(body: ir.Block) -> dict[str, frozenset[str]]:
    """For each name or dotted chain in a body (nested functions included): the methods called on it, ``()`` if it is
    itself called, ``for`` if a loop iterates over it, and ``eval(…)`` for a mode method that got arguments."""
    found: dict[str, set[str]] = {}
    for node in walk(body, into_functions=True):
        if isinstance(node, ir.Call):
            _note_call(node, found)
        elif isinstance(node, (ir.For, ir.Clause)):
            _note(found, node.iter, "for")
            if isinstance(node.iter, ir.Call):
                for arg in node.iter.args:
                    _note(found, arg.value, "for")
    return {name: frozenset(uses) for name, uses in found.items()}


def _note_call(node: ir.Call, found: dict[str, set[str]]) -> None:
    callee = node.callee
    _note(found, callee, "()")
    if isinstance(callee, ir.Attribute):
        _note(found, callee.value, f"{callee.attr}(…)" if node.args else callee.attr)


def _note(found: dict[str, set[str]], node: ir.Expr, use: str) -> None:
    name = dotted(node)
    if name:
        found.setdefault(name, set()).add(use)
