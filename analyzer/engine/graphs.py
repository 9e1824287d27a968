"""What an atom holds of an autograd graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analyzer.engine.trace import Site
from analyzer.engine.values import Device, Tensor, Unknown, Value, limited, nested
from analyzer.records import replace


def carries(case: Value) -> bool:
    """Whether an atom may hold a graph."""
    if isinstance(case, Tensor):
        return case.graph != "no" and bool(case.roots)
    return isinstance(case, Unknown) and bool(case.roots)


def first_trace(value: Value) -> Any:
    """The evidence of the first case that carries a graph."""
    for case in nested(value):
        if carries(case):
            return case.trace
    return value.trace


def combine(cases: Sequence[Value]) -> Value:
    """What an operation on tensors and unknowns gives."""
    roots: frozenset[Site] = frozenset()
    via: frozenset[object] = frozenset()
    graph, trace, tensor, device = "no", None, False, device_of(cases)
    for case in cases:
        if isinstance(case, (Tensor, Unknown)):
            roots, via = roots | case.roots, via | case.via
        if isinstance(case, Tensor):
            tensor = True
            if case.graph == "yes" or (case.graph == "maybe" and graph == "no"):
                graph, trace = case.graph, case.trace
    if graph == "yes" or (tensor and all(isinstance(case, Tensor) for case in cases)):
        return Tensor(graph, limited(roots), via, device=device, trace=trace or cases[0].trace)  # type: ignore[arg-type]
    unknown = next(case for case in cases if isinstance(case, Unknown))
    return replace(unknown, roots=limited(roots), via=via)


def device_of(cases: Sequence[Value]) -> Device:
    """Where the result of an operation on tensors is."""
    places = {case.device for case in cases if isinstance(case, Tensor)}
    if "accelerator" in places:
        return "accelerator"
    if "model" in places:
        return "model"
    return "host" if places == {"host"} and all(isinstance(case, Tensor) for case in cases) else ""


def roots_of(case: Value) -> frozenset[Site]:
    """The graphs an atom may hold."""
    return case.roots if isinstance(case, (Tensor, Unknown)) else frozenset()


def without_graph(case: Value) -> Value:
    """What an operation gives where gradients are off."""
    if isinstance(case, Tensor):
        return replace(case, graph="no", roots=frozenset())
    return replace(case, roots=frozenset()) if isinstance(case, Unknown) else case
