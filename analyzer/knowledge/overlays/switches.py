"""``eval()`` and ``train()`` of what is not known to be a module: noted, and left alone."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.engine import modes
from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.values import Value

Observer = Callable[[Calls, Value, Args, int, State, Value], None]


def _switched(name: str) -> Observer:
    def note(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
        modes.unseen_switch(machine, receiver, name, args, at)

    return note


METHOD_OBSERVERS = {name: _switched(name) for name in ("eval", "train")}
