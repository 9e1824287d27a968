"""Spans of chosen nodes, resolved only in files that report something."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from analyzer.findings import Position, Span


def spans(module: cst.Module, path: str, nodes: Collection[cst.CSTNode]) -> dict[cst.CSTNode, Span]:
    """The spans of `nodes`, which must be nodes of `module` itself."""
    found = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    result: dict[cst.CSTNode, Span] = {}
    for node in nodes:
        place = found[node]
        start = Position(place.start.line, place.start.column)
        result[node] = Span(path, start, Position(place.end.line, place.end.column))
    return result
