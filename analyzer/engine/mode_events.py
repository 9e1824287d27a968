"""Events that have to do with train and evaluation mode beyond the switches themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analyzer.engine.events import Event
from analyzer.engine.trace import Trace
from analyzer.engine.values import ObjectId, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(Event):
    """Something drops out whatever the mode, while a module runs. `how`: a function without ``training``, attention
    that is given a rate, a layer made on the spot. `owner` is what the method calls its module (``self``), if it is in
    one; `last_at` the node of the last argument, `rate_at` that of the rate."""

    callee: str
    how: Literal["function", "attention", "layer"]
    rate: Value | None
    rate_at: int | None
    last_at: int | None
    owner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsUsed(Event):
    """State dicts are loaded, saved, or returned to a caller that was not seen. `stale`: those that share memory with a
    module which has been trained since, each with that training."""

    how: Literal["load", "save", "return"]
    stale: tuple[tuple[ObjectId, Trace], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsKept(Event):
    """A state dict that shares memory with its module is put into an attribute of an object: `place`."""

    place: tuple[ObjectId, str]
    weights: ObjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleNamed(Event):
    """``best = model`` under a condition in a loop: another name for the module itself, no copy."""

    module: ObjectId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRestored(Event):
    """What an attribute of an object holds is loaded into a module."""

    place: tuple[ObjectId, str]
