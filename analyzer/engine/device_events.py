"""Events of tensors that leave the graph, and of what moves them between the host and an accelerator."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.engine.events import Event
from analyzer.engine.trace import Site
from analyzer.engine.values import Device, ObjectId, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLeft(Event):
    """Something without a graph is made of a tensor that has one: a number, a class, a comparison, detached values.
    `roots`: the forward passes of that graph."""

    roots: frozenset[Site]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Event):
    """The host waits for the accelerator: `how` names the call. `value`: what is read; None where all work is waited
    for."""

    how: str
    value: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock(Event):
    """The time is read: a wait before it is a measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleMoved(Event):
    """A module is sent to a device, inside a loop."""

    module: ObjectId
    to: Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Event):
    """A tensor that was made in the host's memory is copied to an accelerator. `made_under`: the loops around the place
    where it was made; `in_pass`: the copy is a part of a forward pass."""

    made_at: Site
    made_under: tuple[object, ...]
    in_pass: bool
