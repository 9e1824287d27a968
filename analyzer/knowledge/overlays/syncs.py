"""Calls that make the host wait for an accelerator (torch docs, "CUDA semantics": asynchronous execution)."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.engine.calls import Calls
from analyzer.engine.device_events import Clock, Sync
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.values import Value


def _read(how: str) -> Callable[[Calls, Value, Args, int, State, Value], None]:
    def note(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
        machine.note_sync(receiver, how, at)

    return note


def _read_arguments(how: str) -> Callable[[Calls, Args, int, State, Value], None]:
    def note(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
        for value in args.positional:
            machine.note_sync(value, how, at)

    return note


def _waits(how: str) -> Callable[[Calls, Args, int, State, Value], None]:
    def note(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
        if machine.loops:
            machine.emit(Sync, at, None, how=how, value=None)

    return note


def _clock(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    if machine.loops:
        machine.emit(Clock, at, None)


# not ``numpy()``: it raises for a tensor that is not in the host's memory
METHOD_OBSERVERS = {name: _read(f".{name}()") for name in ("item", "tolist", "cpu", "nonzero", "__bool__")}
OBSERVERS = {
    **{f"builtins.{name}": _read_arguments(f"{name}()") for name in ("float", "int", "bool", "print")},
    **{f"torch.cuda.{name}": _waits(f"torch.cuda.{name}()") for name in ("synchronize", "empty_cache")},
    **dict.fromkeys(
        [f"time.{name}" for name in ("time", "perf_counter", "monotonic", "time_ns", "process_time")]
        + ["timeit.default_timer", "torch.cuda.Event"],
        _clock,
    ),
}
