"""Outputs of networks without a graph: tensors as large as what a forward pass gave, and where they are kept.

A tensor that a forward pass made while gradients are off carries the mark `Output` in `via`. Only what keeps the
size of such an output hands the mark on; numbers, classes and means are small and have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from analyzer.engine.events import Event
from analyzer.engine.trace import Site
from analyzer.engine.values import Const, ObjectId, Tensor, Tuple, Unknown, Value, union
from analyzer.records import dataclass, replace
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, walk

if TYPE_CHECKING:
    from analyzer.engine.machine import Machine

V = TypeVar("V", bound=Value)
_SAME_SIZE = frozenset([
    "softmax", "log_softmax", "sigmoid", "sigmoid_", "exp", "log", "relu", "relu_", "tanh", "normalize", "clamp",
    "clip", "float", "double", "half", "bfloat16", "to", "type", "cuda", "cpu", "detach", "detach_", "clone",
    "contiguous", "squeeze", "unsqueeze", "permute", "transpose", "t", "flatten", "view", "reshape", "rearrange",
    "cat", "concat", "stack", "hstack", "vstack", "interpolate", "upsample", "pin_memory", "div", "mul", "sub", "add",
    "nan_to_num", "Softmax", "LogSoftmax", "Sigmoid", "Softmax2d", "Identity", "Upsample", "Flatten", "Dropout", "ReLU",
])  # fmt: skip
"""Functions and methods whose result is as large as what they are given, or nearly so."""
_OVER_CLASSES = frozenset(
    [
        "softmax",
        "log_softmax",
        "argmax",
        "topk",
        "normalize",
        "interpolate",
        "Softmax",
        "LogSoftmax",
        "Softmax2d",
        "Upsample",
    ]
)
_OVER_CLASSES_WITH_DIM = frozenset(["max", "min", "sort"])
_JOINING = frozenset(["cat", "concat", "concatenate", "vstack", "hstack"])
_MATCHED = frozenset(["mm", "matmul", "bmm", "einsum", "cdist", "cosine_similarity", "addmm"])
FIELDS = frozenset([
    "logits", "last_hidden_state", "hidden_states", "pooler_output", "image_embeds", "text_embeds",
    "encoder_last_hidden_state", "prediction_logits", "start_logits", "end_logits", "pred_masks",
])  # fmt: skip
"""Fields of the output objects of transformers that have a dimension of classes, tokens or features; others may be a
number (``loss``)."""


@dataclass(frozen=True, slots=True)
class Output:
    """The mark of what the forward pass at a site gave."""

    site: Site


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputKept(Event):
    """Something that holds outputs without a graph is put into a container, or joined to a tensor that earlier
    iterations left (`into` is None). `outputs`: the tensors; `born_under`: how
    many loops were around the container when it was made;
    `tensor_at`: the node of what is put in, if that is a tensor."""

    into: ObjectId | None
    outputs: tuple[Tensor, ...]
    born_under: int
    tensor_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRead(Event):
    """What is done with the output of the forward pass at `of` tells what it is: ``classes``, which are chosen from;
    ``features``, which are compared on the device."""

    of: Site
    what: str


def marks_in(tags: frozenset[object]) -> frozenset[Output]:
    """The outputs among some tags."""
    return frozenset(tag for tag in tags if isinstance(tag, Output))


def marks_of(case: Value) -> frozenset[Output]:
    """The outputs that an atom is, or is made of."""
    return marks_in(case.via) if isinstance(case, (Tensor, Unknown)) and case.via else frozenset()


def without(tags: frozenset[object]) -> frozenset[object]:
    """The tags that are no outputs."""
    return frozenset(tag for tag in tags if not isinstance(tag, Output)) if marks_in(tags) else tags


def note_joined(machine: Machine, node: ir.Assign, value: Value) -> None:
    """``kept = torch.cat((kept, out))`` directly in a loop over data, or in one that may draw batches by hand."""
    if not machine.loops or machine.in_pass or len(node.targets) != 1:
        return
    call = _joining(node.value)
    if call is None:
        return
    callee = call.callee
    found = tuple(case for case in value.cases if isinstance(case, Tensor) and marks_of(case))
    name = dotted(node.targets[0])
    if not found or name is None or dotted(callee) is None:
        return
    given = walk(call.args, into_functions=False)
    kinds = [loop.kind for loop in machine.loops]
    is_only = kinds.count("data") == 1 or ("data" not in kinds and kinds[-1] in {"range", "while"})
    if is_only and any(isinstance(each, (ir.Name, ir.Attribute)) and dotted(each) == name for each in given):
        born = len(machine.loops) - 1
        machine.emit(
            OutputKept, call.at, found[0].trace, into=None, outputs=found, born_under=born, tensor_at=None
        )  # fmt: skip


def _joining(value: ir.Expr | None) -> ir.Call | None:
    """The call that joins: of ``out if kept is None else torch.cat((kept, out))``, the second one."""
    for each in (value.body, value.orelse) if isinstance(value, ir.Conditional) else (value,):
        if isinstance(each, ir.Call) and last_name(each.callee) in _JOINING:
            return each
    return None


def unmarked(case: V) -> V:
    """An atom that is small, or a part of something that may be."""
    if isinstance(case, (Tensor, Unknown)) and marks_in(case.via):
        return replace(case, via=without(case.via))
    return case


def item(case: V, index: Value) -> V:
    """``case[index]``: of several dimensions a constant picks one class, or one step."""
    is_part = isinstance(index, Tuple) and any(isinstance(each, Const) for each in index.items)
    return unmarked(case) if is_part else case


def marked(case: Tensor, site: Site) -> Tensor:
    """The output of the forward pass at a site; one that is inside another pass is the output of that one."""
    return replace(case, via=without(case.via) | {Output(site)})


def handed_on(value: Value, site: Site) -> Value:
    """What a forward pass gives, where some of it is the output of a layer: now its own."""
    cases: list[Value] = []
    for case in value.cases:
        if isinstance(case, Tensor) and marks_in(case.via):
            cases.append(marked(case, site))
        elif isinstance(case, Tuple):
            cases.append(replace(case, items=tuple(handed_on(item, site) for item in case.items)))
        else:
            cases.append(case)
    return union(cases)


def with_marks(case: Value, marks: frozenset[Output]) -> Value:
    """An atom with these marks and no others."""
    if isinstance(case, (Tensor, Unknown)) and marks_in(case.via) != marks:
        return replace(case, via=without(case.via) | marks)
    return case


def is_kept_by(name: str) -> bool:
    """Whether what a library call gives is as large as what it is given."""
    return name.rsplit(".", 1)[-1] in _SAME_SIZE


def use_of(name: str, has_more: bool) -> str:
    """What a library call that is given an output says about it. `has_more`: it has other arguments (``max(1)``)."""
    last = name.rsplit(".", 1)[-1]
    if last in _OVER_CLASSES or (has_more and last in _OVER_CLASSES_WITH_DIM):
        return "classes"
    return "features" if last in _MATCHED else ""
