"""Engines and optimizers that a framework makes of what it is given: DeepSpeed, Lightning."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.trace import Gap
from analyzer.engine.typing import is_blank
from analyzer.engine.values import Func, Ref, Tuple, Value


def initialize(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``deepspeed.initialize(args, model, …)``: the engine, which is the model, with optimizer, loader, scheduler."""
    model = args.at(1, "model")
    if model is None or all(is_blank(case) for case in model.cases):
        model = machine.create("engine", at, "Module", "the engine is created here", gap=Gap.CONVENTION, born="unseen")
    modules = frozenset(case.obj for case in model.cases if isinstance(case, Ref) and machine.is_module(case))
    made = machine.create("engine optimizer", at, "Optimizer", "the engine makes its optimizer", modules=modules)
    given = args.at(2, "optimizer")
    optimizer = given if isinstance(given, Ref) and machine.obj(given).kind == "Optimizer" else made
    loader = machine.create("engine loader", at, "Loader", "the engine makes its loader")
    scheduler = machine.create("engine scheduler", at, "Scheduler", "the engine makes its scheduler")
    return Tuple((model, optimizer, loader, scheduler))


def optimizers(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``self.optimizers()`` of a LightningModule: what ``configure_optimizers`` makes, before training begins."""
    cls = machine.obj(ref).cls
    configure = machine.class_attribute(cls, "configure_optimizers", state) if cls is not None else None
    found: list[Value] = []
    for case in configure.cases if configure is not None else ():
        if isinstance(case, Func):
            found += configured(machine, machine.bound(case, ref, at, state), at, state.fork())
    if not found:
        return machine.create("optimizers", at, "Optimizer", "the optimizers", modules=frozenset({ref.obj}))
    return found[0] if len(found) == 1 else Tuple(tuple(found))


def configured(machine: Calls, method: Value, at: int, state: State) -> list[Value]:
    """The optimizers that a ``configure_optimizers`` returns. It runs before the loop, not here: its events are its
    own, and what it makes is as old as the module."""
    outer, machine.loops = machine.loops, ()
    mark, known = len(machine.events), set(machine.called)
    value = machine.call(method, Args(), at, state)
    del machine.events[mark:]
    machine.called = known
    machine.loops = outer
    return list(_flat(machine, value, state, 3))


def _flat(machine: Calls, value: Value, state: State, depth: int) -> Iterator[Value]:
    """The optimizers in what may be one, a list of them, a dict, or lists of optimizers and of schedulers."""
    for case in value.cases if depth else ():
        if isinstance(case, Tuple):
            for item in case.items:
                yield from _flat(machine, item, state, depth - 1)
        elif isinstance(case, Ref):
            kind = machine.obj(case).kind
            if kind == "Optimizer":
                yield case
            for name, held in state.fields(case.obj) if kind in ("dict", "list") else ():
                if kind == "list" or name == "['optimizer']":
                    yield from _flat(machine, held, state, depth - 1)


FUNCTIONS = {"deepspeed.initialize": initialize}
METHODS = {("Module", "optimizers"): optimizers}
