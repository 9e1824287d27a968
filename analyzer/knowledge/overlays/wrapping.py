"""Wrappers around a module that take time to make: compilation, replicas, shards."""

from __future__ import annotations

from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.optim_events import Wrapped
from analyzer.engine.state import State
from analyzer.engine.values import Ref, Value


def wrapped(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """``torch.compile(model)``, ``DistributedDataParallel(model)``."""
    given = args.at(0, "model") or args.at(0, "module")
    modules = frozenset(case.obj for case in (given.cases if given is not None else ()) if isinstance(case, Ref))
    if machine.loops and modules and all(machine.objects[obj].kind == "Module" for obj in modules):
        machine.emit(Wrapped, at, None, modules=modules)


OBSERVERS = {"torch.compile": wrapped}
