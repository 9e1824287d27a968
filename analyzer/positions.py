"""Spans of chosen nodes, resolved only in files that report something.

LibCST's `PositionProvider` builds an object per node inside the metadata machinery. This `CodegenState` notes pairs of
numbers during one code generation instead. It leans on a class that LibCST does not document, so
``tests/analyzer/test_positions.py`` compares it with the provider on every node of files that have them all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

import libcst as cst
from libcst.metadata.position_provider import PositionProvidingCodegenState

from analyzer.findings import Position, Span
from analyzer.nesting import recursion_room

_Place = tuple[int, int]


class _Noting(PositionProvidingCodegenState):
    """Writes the module as LibCST would, and notes where nodes begin and end."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__(
            default_indent=module.default_indent, default_newline=module.default_newline, provider=cast(Any, None)
        )
        self.ends: dict[int, tuple[_Place, _Place]] = {}
        self.open: list[_Place] = []

    def before_codegen(self, node: cst.CSTNode) -> None:
        self.open.append((self.line, self.column))

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self.open.pop()
        key = id(node)
        if key not in self.ends:
            self.ends[key] = start, (self.line, self.column)

    @contextmanager
    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Iterator[None]:
        start = self.line, self.column
        try:
            yield
        finally:
            end = self.line, self.column
            first = self.ends[id(start_node)][0] if start_node is not None else start
            last = self.ends[id(end_node)][1] if end_node is not None else end
            self.ends[id(node)] = first, last


@lru_cache(maxsize=1)
def _written(module: cst.Module) -> _Noting:
    """The module written out: once for all that is asked of a file in a row."""
    state = _Noting(module)
    with recursion_room():
        module._codegen(state)
    return state


def spans(module: cst.Module, path: str, nodes: Collection[cst.CSTNode]) -> dict[cst.CSTNode, Span]:
    """The spans of `nodes`, which must be nodes of `module` itself. Columns count code points.

    A node that writes nothing (an implicit comma) has no span and is absent.
    """
    if not nodes:
        return {}
    state = _written(module)
    result: dict[cst.CSTNode, Span] = {}
    for node in nodes:
        place = state.ends.get(id(node))
        if place is not None:
            result[node] = Span(path, Position(*place[0]), Position(*place[1]))
    return result
