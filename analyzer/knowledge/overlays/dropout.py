"""What drops out: functions that do so unless told otherwise, and layers made where they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.mode_events import Dropped
from analyzer.engine.state import State
from analyzer.engine.trace import start
from analyzer.engine.values import Const, Value
from analyzer.syntax import ir

Observer = Callable[[Calls, Args, int, State, Value], None]
How = Literal["function", "attention", "layer"]


def _note(machine: Calls, args: Args, at: int, callee: str, how: How, index: int, name: str) -> None:
    rate, node = args.at(index, name), args.node(index, name)
    if isinstance(rate, Const) and not rate.value:
        return
    nodes = [node for node in (*args.nodes, *args.keyword_nodes.values()) if node is not None]
    machine.emit(
        Dropped, at, start(machine.site(at), "it drops out here"), callee=callee, how=how, rate=rate,
        rate_at=node.at if node is not None else None, last_at=max((node.at for node in nodes), default=None),
        owner=_owner(machine),
    )  # fmt: skip


def _owner(machine: Calls) -> str | None:
    node, this = machine.frame.node, machine.frame.this
    is_method = isinstance(node, ir.FunctionDef) and this is not None and machine.is_module(this)
    return node.params[0].name if is_method and isinstance(node, ir.FunctionDef) and node.params else None


def _runs_module(machine: Calls) -> bool:
    return machine.in_pass or any(frame.this is not None and machine.is_module(frame.this) for frame in machine.frames)


def _function(callee: str) -> Observer:
    def observe(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
        if not args.has_more and args.at(2, "training") is None and _runs_module(machine):
            _note(machine, args, at, callee, "function", 1, "p")

    return observe


def _attention(callee: str, index: int, name: str) -> Observer:
    def observe(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
        if args.node(index, name) is not None and _runs_module(machine):
            _note(machine, args, at, callee, "attention", index, name)

    return observe


def _layer(callee: str) -> Observer:
    def observe(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
        builds = any(getattr(frame.node, "name", "") == "__init__" for frame in machine.frames)
        if machine.forwards and not builds:
            _note(machine, args, at, callee, "layer", 0, "p")

    return observe


_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d")
"""torch docs, torch.nn.functional: ``(input, p=0.5, training=True, inplace=False)``. ``alpha_dropout`` and
``feature_alpha_dropout`` have ``training=False`` as their default, so they are not here."""
_LAYERS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")
OBSERVERS: dict[str, Observer] = {
    **{f"torch.nn.functional.{name}": _function(f"F.{name}") for name in _FUNCTIONS},
    **{f"torch.nn.{name}": _layer(f"nn.{name}") for name in _LAYERS},
    "torch.nn.functional.scaled_dot_product_attention": _attention("scaled_dot_product_attention", 4, "dropout_p"),
    "flash_attn.flash_attn_func": _attention("flash_attn_func", 3, "dropout_p"),
    "xformers.ops.memory_efficient_attention": _attention("memory_efficient_attention", 4, "p"),
}
"""torch, flash-attn and xformers docs: the rate of attention is applied whatever the mode of the module."""
