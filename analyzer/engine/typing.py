"""What a value is that nobody showed us, by what is done with it. A use is a convention. A name decides nothing, but
for what only steps: an optimizer or a scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from analyzer.engine.values import ObjectId, Tensor, Union, Unknown, Value
from analyzer.knowledge.words import pattern
from analyzer.records import dataclass
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import ASSIGNED, HANDED, dotted, last_name, walk

RUNS_BACKWARD = frozenset(["backward", "backward(…)"])
_DRIVES = {"backward", "backward(…)", "step", "step(…)", "eval", "train", "zero_grad", "manual_backward(…)"}
_MODULE_USES = {
    "train", "train(…)", "eval", "state_dict", "load_state_dict(…)", "zero_grad", "requires_grad_(…)", "children",
    "modules", "named_modules",
}  # fmt: skip
_STATE_USES = {"state_dict", "load_state_dict(…)"}
_PLACES = {"cuda", "cuda(…)", "to(…)", "half", "float", "double", "bfloat16"}
_TO_GPU = {"cuda", "cuda(…)"}
"""Of what is called as well: a tensor is not."""
_PARAMETER_USES = {"parameters", "named_parameters"}
"""Called without arguments on nothing but modules."""
PASSES = frozenset(
    f"{name}(…)"
    for name in ("forward", "forward_features", "encode", "encode_image", "encode_text", "extract_features", "generate")
)
"""Methods that run a network, on what is also put into evaluation mode."""
_SCHEDULER_USES = {"get_last_lr", "get_lr", "step_update(…)", "get_epoch_values(…)"}
_NO_OPTIMIZER = {"()", "parameters", "named_parameters", "modules", "backward", "backward(…)", "train", "eval"}
_STEPPER_USES = {"step", "state_dict", "load_state_dict(…)", "train", "eval", "add_param_group(…)"}
_ACCELERATOR_USES = {
    "prepare(…)", "accumulate(…)", "gather(…)", "gather_for_metrics(…)", "unwrap_model(…)", "clip_grad_norm_(…)",
    "wait_for_everyone", "autocast", "setup(…)", "setup_module(…)", "clip_gradients(…)", "no_backward_sync(…)",
}  # fmt: skip
_TENSOR_USES = {
    "backward", "item", "detach", "mean", "sum", "cpu", "cuda", "to", "numpy", "float", "double", "half", "clone",
    "size", "dim", "view", "reshape", "squeeze", "unsqueeze", "register_hook", "retain_grad", "tolist", "div", "mul",
    "add", "sub", "div_", "mul_", "add_", "sub_", "abs", "log", "exp", "sqrt", "pow", "requires_grad_", "type", "numel",
    "nelement", "isnan", "isinf", "any", "all", "max", "min", "expand", "repeat", "flatten", "contiguous", "detach_",
    "bfloat16", "new_zeros", "new_tensor", "clamp", "nan_to_num", "masked_fill", "norm", "t", "permute", "transpose",
}  # fmt: skip
"""Methods that people call on what they run a backward pass through; an object with others is no tensor."""
NOUNS = {
    "Optimizer": "an optimizer", "Module": "a module", "Scaler": "a gradient scaler", "Scheduler": "a scheduler",
    "Stepper": "something that steps", "Accelerator": "an accelerator", "Loader": "a loader",
}  # fmt: skip
"""A `Stepper` has only ``step()`` called on it: an optimizer or a scheduler. Which one, the gradients say: a step right
after a backward pass is the optimizer's (`analyzer.knowledge.overlays.optimization`)."""
_MOVES = (HANDED, ASSIGNED)


@remembered(maxsize=4096)
def evaluates(node: ir.FunctionDef) -> bool:
    """Whether a function loops over something with gradients off: what it calls there is a module, for nothing else
    has gradients to turn off."""
    names = [*node.uses, *(dotted(d.callee if isinstance(d, ir.Call) else d) or "" for d in node.decorators)]
    is_off = any(name.rsplit(".", 1)[-1] in {"no_grad", "inference_mode"} for name in names)
    return is_off and any("for" in how for how in node.uses.values())


@remembered(maxsize=4096)
def is_only_listed(node: ir.FunctionDef, name: str) -> bool:
    """Whether a function only goes through something in comprehensions: a list of samples, no loader, is what one
    takes columns out of (``[sample[0] for sample in dataset]``)."""
    listed = False
    for each in walk(node.body, into_functions=True):
        if isinstance(each, ir.For) and _names(each.iter, name):
            return False
        if isinstance(each, ir.Comprehension) and any(_names(clause.iter, name) for clause in each.clauses):
            if not isinstance(each.element, (ir.Subscript, ir.Attribute)):
                return False
            listed = True
    return listed


def goes_over(node: ir.FunctionDef, item: ir.Subscript) -> bool:
    """Whether a loop of a function goes over an item that is written as another one is: ``loaders[phase]``."""
    asked = _written(item)
    loops = (each.iter for each in walk(node.body, into_functions=False) if isinstance(each, ir.For))
    return asked is not None and any(
        isinstance(part, ir.Subscript) and _written(part) == asked for over in loops for part in walk((over,), False)
    )


def _written(item: ir.Subscript) -> tuple[str | None, object] | None:
    key = item.index.value if isinstance(item.index, ir.Constant) else dotted(item.index)
    name = dotted(item.value)
    return None if name is None or key is None else (name, key)


def _names(expr: ir.Expr, name: str) -> bool:
    return any(isinstance(part, ir.Name) and part.id == name for part in walk((expr,), into_functions=False))


@dataclass(frozen=True)
class GivenModules:
    """The mark (in `via`) of what unseen code gave back for modules or their parameters: an optimizer among that is
    theirs. `optimizers`: those that it was given as well."""

    modules: frozenset[ObjectId]
    optimizers: frozenset[ObjectId] = frozenset()


def given_modules(value: Value) -> frozenset[ObjectId]:
    """The modules that unseen code was given to make a value of."""
    return frozenset(module for tag in _given(value) for module in tag.modules)


def given_optimizers(value: Value) -> frozenset[ObjectId]:
    """The optimizers that unseen code was given to make a value of."""
    return frozenset(each for tag in _given(value) for each in tag.optimizers)


def _given(value: Value) -> Iterator[GivenModules]:
    tags = (tag for case in value.cases if isinstance(case, Unknown) for tag in case.via)
    return (tag for tag in tags if isinstance(tag, GivenModules))


@remembered(maxsize=4096)
def has_model(node: ir.FunctionDef) -> bool:
    """Whether another use tells which parameter of a function is the model: what else it calls may be a loss."""
    return bool(models(node))


@remembered(maxsize=4096)
def models(node: ir.FunctionDef) -> frozenset[str]:
    """The parameters of a function that other uses than a call tell to be modules."""
    return frozenset(
        param.name for param in node.params if kind_by_use(node.uses.get(param.name, frozenset())) == "Module"
    )


@lru_cache(maxsize=8192)
def kind_by_use(uses: frozenset[str]) -> str | None:
    """The kind of object that is used so, if it is clear."""
    if "backward(…)" in uses and uses & _ACCELERATOR_USES:
        return "Accelerator"
    if "backward(…)" in uses and {"step", "()"} <= uses:
        return "Module"  # the engine that DeepSpeed makes of one
    if {"scale(…)", "unscale_(…)"} & uses and {"step(…)", "update"} & uses:
        return "Scaler"
    if {"step", "step(…)"} & uses and {"zero_grad", "zero_grad(…)"} & uses:
        return "Optimizer"
    if {"step", "step(…)"} & uses and uses & _SCHEDULER_USES:
        return "Scheduler"
    if {"zero_grad", "zero_grad(…)"} & uses and not uses & _NO_OPTIMIZER:
        return "Optimizer"
    if _is_module(uses):
        return "Module"
    return "Stepper" if "step" in uses and {use for use in uses if use[0] not in _MOVES} <= _STEPPER_USES else None


def _is_module(uses: frozenset[str]) -> bool:
    if uses & _PARAMETER_USES or ("()" in uses and uses & (_MODULE_USES | _TO_GPU)):
        return True
    if ("load_state_dict(…)" in uses and uses & _PLACES) or ("forward(…)" in uses and uses & _STATE_USES):
        return True
    return bool({"train", "eval"} & uses) and (bool(uses & (_PLACES | PASSES)) or {"train", "eval"} <= uses)


def is_called_optimizer(name: str) -> bool:
    """Whether the name of something that only steps tells that it is an optimizer, rather than a scheduler."""
    return pattern("optimizer").search(name.rpartition(".")[2]) is not None


def steps_as_optimizer(call: object) -> bool:
    """Whether what is called says that it is an optimizer that steps: ``self.optimizers["actor"].step()``."""
    receiver = call.callee.value if isinstance(call, ir.Call) and isinstance(call.callee, ir.Attribute) else None
    while isinstance(receiver, (ir.Subscript, ir.Call)):
        index = receiver.index if isinstance(receiver, ir.Subscript) else None
        if isinstance(index, ir.Constant) and is_called_optimizer(str(index.value)):
            return True
        receiver = receiver.value if isinstance(receiver, ir.Subscript) else receiver.callee
    return receiver is not None and is_called_optimizer(last_name(receiver))


@lru_cache(maxsize=4096)
def is_called_loss(name: str) -> bool:
    """Whether the name of something that is called tells that it is a loss: of one that the text does not show."""
    return pattern("a loss").search(name) is not None


def is_loss_by_use(uses: frozenset[str]) -> bool:
    """Whether ``backward()`` is called on something, and nothing that only other objects have."""
    if RUNS_BACKWARD.isdisjoint(uses) or "()" in uses:
        return False
    methods = {use.removesuffix("(…)") for use in uses if use[:1] not in _MOVES}
    return all(method in _TENSOR_USES for method in methods if method.isidentifier() and method != "for")


def is_argument(value: Value) -> bool:
    """Whether a value is what an unseen caller gave."""
    return isinstance(value, Unknown) and value.is_given


def is_blank(value: Value) -> bool:
    """Whether all that is known of a value is where it came from: unknown, or an element of what a loop runs over."""
    return (isinstance(value, Unknown) or (isinstance(value, Tensor) and value.is_batch)) and not value.roots


def has_blank(value: Value) -> bool:
    """Whether a value may be one of which nothing else is known."""
    return any(map(is_blank, value.cases)) if type(value) is Union else is_blank(value)


@remembered(maxsize=4096)
def is_driver(node: ir.FunctionDef | ir.Lambda) -> bool:
    """Whether a method trains or evaluates, rather than computes a part of a forward pass."""
    uses = node.uses.values() if isinstance(node, ir.FunctionDef) else ()
    return any(how & _DRIVES for how in uses)
