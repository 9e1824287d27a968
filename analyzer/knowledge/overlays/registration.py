"""How attributes get onto an object other than by assignment: ``setattr`` and what registers with a module."""

from __future__ import annotations

from analyzer.engine.calls import Calls
from analyzer.engine.events import Clear
from analyzer.engine.machine import MAYBE, Args, unseen
from analyzer.engine.state import State
from analyzer.engine.values import Const, Method, Parameter, Ref, Stream, Tensor, Value, const


def set_attribute(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``setattr(obj, name, value)``: under its name, or under one that is not known; ``setattr(p, "grad", None)``."""
    if len(args.positional) == 3:
        name = args.positional[1]
        for case in args.positional[0].cases:
            if isinstance(case, Tensor) and isinstance(name, Const) and name.value == "grad":
                machine.emit(Clear, at, None, modules=case.param_of)
            if isinstance(case, Ref):
                _hold(case, args.positional[1], args.positional[2], state)
    return const(None)


def register(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``add_module(name, module)``, ``register_module``, ``register_parameter``."""
    name, value = args.at(0, "name"), args.at(1, "module") or args.at(1, "param")
    if name is not None and value is not None:
        _hold(ref, name, value, state)
        if machine.obj(ref).name == "torch.nn.Sequential":
            _append(machine, ref, name, value, at)
    return const(None)


def _append(machine: Calls, ref: Ref, name: Value, value: Value, at: int) -> None:
    """A layer more in a ``Sequential``; one that may be there, or be one of many, is a layer that is not known."""
    obj = machine.obj(ref)
    is_sure = isinstance(name, Const) and not machine.guards and len(machine.loops) == len(obj.loops)
    key = f"{name.value}" if isinstance(name, Const) and is_sure else MAYBE
    layer = value if is_sure else unseen("a layer that may be added", machine.site(at))
    obj.arguments = (*((known, held) for known, held in obj.arguments if known != key), (key, layer))


def append(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``layers.append(nn.Sigmoid())`` of a ``Sequential``, which it gives back."""
    layer = args.at(0, "module")
    if machine.obj(ref).name != "torch.nn.Sequential" or layer is None:
        return machine.method_unseen(Method(ref, "append"), ref, args, at, state)
    name = const(f"at {at}")  # what stands there is added once
    _hold(ref, name, layer, state)
    _append(machine, ref, name, layer, at)
    return ref


def register_buffer(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``register_buffer(name, tensor)``: registered, whatever the tensor was before."""
    name, value = args.at(0, "name"), args.at(1, "tensor")
    if name is not None and value is not None:
        kept = Parameter(trace=value.trace) if isinstance(value, Tensor) else value
        _hold(ref, name, kept, state)
    return const(None)


def _hold(ref: Ref, name: Value, value: Value, state: State) -> None:
    if isinstance(name, Const) and isinstance(name.value, str):
        state.set((ref.obj, name.value), value)
    else:
        state.add((ref.obj, "some attribute"), value)


def children(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``resnet.children()``: each of the stages of a known network stands for the network."""
    row = machine.knowledge.row(machine.obj(ref).name) if machine.obj(ref).cls is None else None
    if row is None or not row.parts:
        return machine.method_unseen(Method(ref, "children"), ref, args, at, state)
    return Stream(ref, trace=ref.trace)


FUNCTIONS = {"builtins.setattr": set_attribute}
METHODS = {
    ("Module", "add_module"): register,
    ("Module", "append"): append,
    ("Module", "register_module"): register,
    ("Module", "register_parameter"): register,
    ("Module", "register_buffer"): register_buffer,
    ("Module", "children"): children,
}
