"""``eval()`` and ``train()`` of what is not known to be a module: noted, and left alone. Contexts entered by hand."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.engine import modes
from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.state import FALSE, GRAD_OFF, State
from analyzer.engine.values import Ref, Value, const

Observer = Callable[[Calls, Value, Args, int, State, Value], None]


def _switched(name: str) -> Observer:
    def note(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
        modes.unseen_switch(machine, receiver, name, args, at)

    return note


def entered(machine: Calls, receiver: Ref, args: Args, at: int, state: State) -> Value:
    """``torch.no_grad().__enter__()``: gradients are off until somebody leaves it."""
    row = machine.knowledge.row(machine.obj(receiver).name)
    machine.set_grad(row.effect if row else "", state.get((receiver.obj, "mode")), state)
    return receiver


def left(machine: Calls, receiver: Ref, args: Args, at: int, state: State) -> Value:
    """``context.__exit__(None, None, None)``."""
    row = machine.knowledge.row(machine.obj(receiver).name)
    if row is not None and row.effect.startswith("grad-"):
        state.set(GRAD_OFF, FALSE)
    return const(None)


def _entered_on_stack(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``stack.enter_context(torch.no_grad())``."""
    context = args.at(0, "cm")
    if isinstance(context, Ref) and machine.obj(context).kind == "Context":
        entered(machine, context, args, at, state)


METHODS = {("Context", "__enter__"): entered, ("Context", "__exit__"): left}
METHOD_OBSERVERS = {
    **{name: _switched(name) for name in ("eval", "train")},
    "enter_context": _entered_on_stack,
}
