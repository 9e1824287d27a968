"""Functions that run after each forward pass of a module (torch docs, `Module.register_forward_hook`)."""

from __future__ import annotations

from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.values import Const, Func, Ref, Value, const

_HANDLE = "HookHandle"


def register(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``layer.register_forward_hook(keep)``, of a function that was read."""
    hook = args.at(0, "hook")
    if hook is not None and all(isinstance(case, Func) for case in hook.cases):
        machine.pass_hooks.setdefault(ref.obj, {})[at] = hook
    return machine.create("handle", at, _HANDLE, "a hook is registered", arguments=(("module", ref), ("at", const(at))))


def remove(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``handle.remove()``."""
    held = dict(machine.obj(ref).arguments)
    module, place = held.get("module"), held.get("at")
    if isinstance(module, Ref) and isinstance(place, Const) and isinstance(place.value, int):
        machine.pass_hooks.get(module.obj, {}).pop(place.value, None)
    return const(None)


METHODS = {("Module", "register_forward_hook"): register, (_HANDLE, "remove"): remove}
