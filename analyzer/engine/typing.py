"""What a parameter is that no seen caller gives: its annotation says so, or else what the function uses it for.

A name decides nothing. An annotation leaves no gap; a use is a convention, and marked as one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from analyzer.engine.trace import Gap, start
from analyzer.engine.values import External, Scalar, Stream, Tensor, Unknown, Value
from analyzer.syntax import ir
from analyzer.syntax.scope import ASSIGNED, HANDED, dotted

if TYPE_CHECKING:
    from analyzer.engine.machine import Machine
    from analyzer.engine.state import State

_MODULE_USES = {"train", "eval", "parameters", "state_dict", "named_parameters", "load_state_dict", "zero_grad"}
_BY_ANNOTATION = {
    "torch.nn.Module": "Module", "torch.nn.modules.module.Module": "Module", "torch.optim.Optimizer": "Optimizer",
    "torch.optim.optimizer.Optimizer": "Optimizer", "torch.optim.lr_scheduler.LRScheduler": "Scheduler",
    "torch.optim.lr_scheduler._LRScheduler": "Scheduler", "torch.cuda.amp.GradScaler": "Scaler",
    "torch.amp.GradScaler": "Scaler", "torch.utils.data.DataLoader": "Loader",
    "accelerate.Accelerator": "Accelerator",
}  # fmt: skip
_PARAMETER_USES = {"parameters", "named_parameters"}
"""Called without arguments on nothing but modules."""
_SCHEDULER_USES = {"get_last_lr", "get_lr", "step_update(…)", "get_epoch_values(…)"}
_NO_OPTIMIZER = {"()", "parameters", "named_parameters", "modules", "backward", "backward(…)", "train", "eval"}
_STEPPER_USES = {"step", "state_dict", "load_state_dict(…)", "train", "eval", "add_param_group(…)"}
NOUNS = {
    "Optimizer": "an optimizer", "Module": "a module", "Scaler": "a gradient scaler", "Scheduler": "a scheduler",
    "Stepper": "something that steps",
}  # fmt: skip
"""A `Stepper` has only ``step()`` called on it: an optimizer or a scheduler. Which one, the gradients say: a step right
after a backward pass is the optimizer's (`analyzer.knowledge.overlays.optimization`)."""
_MOVES = (HANDED, ASSIGNED)
_PLAIN = {"builtins.int", "builtins.float", "builtins.str", "builtins.bool"}


def parameter_value(machine: Machine, param: ir.Param, node: ir.FunctionDef, state: State) -> Value:
    """The value to start a parameter with."""
    annotated = _annotated(machine, param, state)
    if annotated is not None:
        return annotated
    uses = node.uses.get(param.name, frozenset())
    kind = kind_by_use(uses)
    born = "argument"
    if kind is None and "()" in uses and "for" not in uses and evaluates(node):
        kind, born = "Module", "called"
    if kind:
        note = f"`{param.name}` is used as {NOUNS[kind]}"
        return machine.create(("parameter", param.name), param.at, kind, note, gap=Gap.CONVENTION, born=born)
    site = machine.site(param.at)
    if "for" in uses:
        note = f"`{param.name}` is iterated over"
        return Stream(Tensor(is_opaque=True, is_batch=True), trace=start(site, note, Gap.CONVENTION))
    return Unknown("a parameter", Gap.UNSEEN, trace=start(site, f"parameter `{param.name}`", Gap.UNSEEN))


def _annotated(machine: Machine, param: ir.Param, state: State) -> Value | None:
    if param.annotation is None or isinstance(param.annotation, ir.Constant):
        return None
    for case in machine.evaluate(param.annotation, state).cases:
        name = case.name if isinstance(case, External) else ""
        if name in _PLAIN:
            return Scalar("number")
        if name == "torch.Tensor":
            return Unknown("a tensor parameter", Gap.UNSEEN)
        kind = _BY_ANNOTATION.get(name) or ("Module" if name.startswith("torch.nn.") else None)
        if kind:
            note = f"`{param.name}` is annotated as a {kind}"
            return machine.create(("parameter", param.name), param.at, kind, note, born="argument")
    return None


@lru_cache(maxsize=4096)
def evaluates(node: ir.FunctionDef) -> bool:
    """Whether a function loops over something with gradients off: what it calls there is a module, for nothing else
    has gradients to turn off."""
    names = [*node.uses, *(dotted(d.callee if isinstance(d, ir.Call) else d) or "" for d in node.decorators)]
    is_off = any(name.rsplit(".", 1)[-1] in {"no_grad", "inference_mode"} for name in names)
    return is_off and any("for" in how for how in node.uses.values())


def kind_by_use(uses: frozenset[str]) -> str | None:
    """The kind of object that is used so, if it is clear."""
    if {"scale(…)", "unscale_(…)"} & uses and {"step(…)", "update"} & uses:
        return "Scaler"
    if {"step", "step(…)"} & uses and {"zero_grad", "zero_grad(…)"} & uses:
        return "Optimizer"
    if {"step", "step(…)"} & uses and uses & _SCHEDULER_USES:
        return "Scheduler"
    if {"zero_grad", "zero_grad(…)"} & uses and not uses & _NO_OPTIMIZER:
        return "Optimizer"
    if "()" in uses and uses & _MODULE_USES:
        return "Module"
    if uses & _PARAMETER_USES:
        return "Module"
    return "Stepper" if "step" in uses and {use for use in uses if use[0] not in _MOVES} <= _STEPPER_USES else None


def is_argument(value: Value) -> bool:
    """Whether a value is what an unseen caller gave."""
    return isinstance(value, Unknown) and value.reason.startswith(("a parameter", "argument "))


def is_blank(value: Value) -> bool:
    """Whether all that is known of a value is where it came from: unknown, or an element of what a loop runs over."""
    return (isinstance(value, Unknown) or (isinstance(value, Tensor) and value.is_batch)) and not value.roots
