"""Copies of modules and of their state: what is shared with the original, and what is not."""

from __future__ import annotations

from analyzer.engine import weights
from analyzer.engine.calls import Calls
from analyzer.engine.data_events import WeightsKept
from analyzer.engine.machine import CONTAINERS, Args
from analyzer.engine.state import State
from analyzer.engine.trace import start
from analyzer.engine.values import Ref, Scalar, Stream, Tuple, Value, union

MAX_DEPTH = 6


def deepcopy(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``copy.deepcopy(x)``: another module with parts, mode and weights of its own; the entries of a state dict are
    plain tensors from then on; other values are as good as the original."""
    value = args.at(0, "x")
    kinds = {machine.obj(case).kind for case in value.cases if isinstance(case, Ref)} if value is not None else set()
    if machine.guards and kinds & {"StateDict", "Module"}:
        machine.emit(WeightsKept, at, start(machine.site(at), "weights are copied here"))
    return Scalar() if value is None else union(_copied(machine, case, at, state, {}) for case in value.cases)


def _copied(machine: Calls, case: Value, at: int, state: State, made: dict[int, Ref], depth: int = 0) -> Value:
    if not isinstance(case, Ref) or depth > MAX_DEPTH:
        return case
    if case.obj in made:
        return made[case.obj]
    obj = machine.obj(case)
    if obj.kind == "StateDict":
        return Scalar()
    if obj.kind in CONTAINERS and not depth and not any(_is_alias(machine, item) for item in machine.deep(case, state)):
        return case
    if obj.kind not in ("Module", *CONTAINERS):
        return case
    given = tuple(  # of a Sequential, its layers
        (name, union(_copied(machine, c, at, state, made, depth + 1) for c in value.cases))
        for name, value in obj.arguments
    )
    copy = machine.create(
        ("copy", case.obj), at, obj.kind, "a copy is made here", cls=obj.cls, name=obj.name,
        modules=_own(obj.modules, made), arguments=given, element=obj.element, born=obj.born, gap=obj.trace.gap,
    )  # fmt: skip
    made[case.obj] = copy
    machine.empty(copy, state)
    for name, held in state.fields(case.obj):
        state.set((copy.obj, name), union(_copied(machine, c, at, state, made, depth + 1) for c in held.cases))
    if case.obj in machine.reads_mode:
        machine.reads_mode.add(copy.obj)
    return copy


def _own(modules: frozenset[int], made: dict[int, Ref]) -> frozenset[int]:
    """The copies of the modules that were copied."""
    return frozenset(made[module].obj if module in made else module for module in modules)


def state_dict(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``module.state_dict()``: the weights themselves."""
    return weights.made(machine, ref, at, state)


def itself(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``state.copy()`` copies the dict and not the tensors; so does ``values()``."""
    return ref


def items(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``state.items()``."""
    return Stream(Tuple((Scalar("str"), ref)), trace=ref.trace)


def _is_alias(machine: Calls, value: Value) -> bool:
    return isinstance(value, Ref) and machine.obj(value).kind == "StateDict"


FUNCTIONS = {"copy.deepcopy": deepcopy}
METHODS = {
    ("Module", "state_dict"): state_dict,
    **{("StateDict", name): itself for name in ("copy", "values")},
    ("StateDict", "items"): items,
    ("StateDict", "detach"): itself,
}
