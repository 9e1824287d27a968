"""Events of tensors that leave the graph, and of what moves them between the host and an accelerator."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.engine.events import Event
from analyzer.engine.trace import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLeft(Event):
    """Something without a graph is made of a tensor that has one: a number, a class, a comparison, detached values.
    `roots`: the forward passes of that graph."""

    roots: frozenset[Site]
