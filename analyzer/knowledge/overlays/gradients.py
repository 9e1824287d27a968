"""Gradients as values: ``torch.autograd.grad``."""

from __future__ import annotations

from analyzer.engine.calls import Calls
from analyzer.engine.graphs import without_graph
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.values import Const, Value, truth, union

_NAME = "torch.autograd.grad"
_CREATE_GRAPH = 4


def grad(machine: Calls, args: Args, at: int, state: State) -> Value:
    """A backward pass whose gradients go to the caller; they have a graph of their own only where one is asked for."""
    row = machine.knowledge.row(_NAME)
    assert row is not None
    result = machine.apply_row(row, _NAME, None, args, at, state)
    asked = args.at(_CREATE_GRAPH, "create_graph")
    is_plain = not args.has_more and (asked is None or (isinstance(asked, Const) and truth(asked) is False))
    return union(without_graph(case) for case in result.cases) if is_plain else result


FUNCTIONS = {_NAME: grad}
