"""Functions that a loader puts its batches together with: what they pad."""

from __future__ import annotations

from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.padding import marks_in
from analyzer.engine.state import State
from analyzer.engine.values import Class, Func, Ref, Tensor, Tuple, Unknown, Value
from analyzer.syntax import ir

COLLATED = "collated"
_PADS = "pad_sequence"


def batch_of(machine: Calls, collate: Value | None, at: int, state: State) -> Tuple | Tensor | None:
    """The batch that ``collate_fn`` makes, where it is a tensor or a tuple and pads some of it."""
    if collate is None or not isinstance(collate, (Func, Ref)) or not _pads(machine, collate, state):
        return None
    mark, called = len(machine.events), set(machine.called)
    result = machine.call(collate, Args((Unknown("samples"),)), at, state.fork())
    del machine.events[mark:]  # the workers' doing, not the program's
    machine.called = called
    if isinstance(result, Tensor):
        return result if _is_padded(result) else None
    if not isinstance(result, Tuple):
        return None
    return result if any(_is_padded(case) for item in result.items for case in item.cases) else None


def _is_padded(case: Value) -> bool:
    return isinstance(case, Tensor) and bool(marks_in(case.via))


def _pads(machine: Calls, collate: Func | Ref, state: State) -> bool:
    """Whether the function names what pads: others are not run for this."""
    if isinstance(collate, Ref):
        cls = machine.obj(collate).cls
        found = machine.class_attribute(cls, "__call__", state) if isinstance(cls, Class) else None
        return any(_pads(machine, case, state) for case in (found.cases if found else ()) if isinstance(case, Func))
    uses = collate.node.uses if isinstance(collate.node, ir.FunctionDef) else {}
    return any(_PADS in name or any(_PADS in use for use in how) for name, how in uses.items())
