"""Events of an optimization step, beside `Backward`, `Step` and `Clear`: clipping, scaling, schedules, parameters."""

from __future__ import annotations

from analyzer.engine.events import Event
from analyzer.engine.trace import Site, Trace
from analyzer.engine.values import ObjectId, Tri, Value
from analyzer.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip(Event):
    """Gradients are clipped, those of `modules` (none: of something we could not tell). `is_scaled`: they are still
    multiplied by a loss scale; `is_fresh`: a backward pass has run and no step has applied it yet."""

    modules: frozenset[ObjectId]
    is_scaled: Tri
    is_fresh: Tri
    is_complete: bool
    """Whether every parameter it is given is one of these modules'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscale(Event):
    """A scaler divides the gradients of an optimizer by its scale."""

    scaler: ObjectId
    optimizer: ObjectId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerStep(Event):
    """A scaler steps an optimizer."""

    scaler: ObjectId
    optimizer: ObjectId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerUpdate(Event):
    """A scaler adapts its scale."""

    scaler: ObjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStep(Event):
    """A scheduler steps. `given`: the argument of the call, if any."""

    scheduler: ObjectId
    given: Value | None
    has_more: bool
    is_fresh: Tri


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerMade(Event):
    """An optimizer is made of the parameters of `modules` and of all that they hold then, `parts`."""

    optimizer: ObjectId
    modules: frozenset[ObjectId]
    parts: frozenset[ObjectId]
    is_complete: bool
    left: tuple[tuple[ObjectId, str, frozenset[ObjectId]], ...] = ()
    """Of the modules that hold some of them: the owner, the name and the parts of what was made later, is not among
    them and was not frozen then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReplaced(Event):
    """A module that an optimizer already holds gets a new layer or parameter."""

    owner: ObjectId
    name: str
    layers: frozenset[ObjectId]
    layer: Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped(Event):
    """A module is compiled, or wrapped for training in several processes, inside a loop."""

    modules: frozenset[ObjectId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersAdded(Event):
    """``optimizer.add_param_group(…)``."""

    optimizer: ObjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class Unregistered(Event):
    """A module keeps something in `name` that it does not register. `what`: ``modules`` or ``parameters`` in a plain
    `container`, a ``parameter`` that is no leaf, a ``buffer`` that is a plain tensor. `used`: where it is read;
    `prefix`: how the file names ``torch.nn``."""

    owner: ObjectId
    name: str
    what: str
    container: str
    value: Trace
    used: Site
    prefix: str | None


GRADIENTS = frozenset({"grad", "_grad"})
"""The attributes that a tensor's gradient goes by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRead(Event):
    """``p.grad`` is read: gradients are used for something other than an optimizer's step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCalled(Event):
    """A statement that names a method and does not call it: ``optimizer.step``."""

    receiver: ObjectId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulate(Event):
    """``with accelerator.accumulate(model)``. `steps`: the number of micro-steps that the accelerator was given."""

    steps: Value | None
