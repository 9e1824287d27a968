"""The shape of a tensor, as far as broadcasting asks: ``column`` (N, 1), ``flat`` (N,), or nothing known (``one more``:
but a dimension of one was added, so that it picks one number of each row).

Two such tensors of equal length broadcast to (N, N) where one number per sample was meant. Everything else about
shapes is left alone: only what the text says (a layer with one output, ``view(-1)``, a list of numbers) gives a shape,
and only element-wise functions keep it.
"""

from __future__ import annotations

from analyzer.engine.events import Event
from analyzer.engine.machine import Args
from analyzer.engine.padding import marks_in, unpadded
from analyzer.engine.trace import Trace
from analyzer.engine.values import Const, Scalar, Shape, Tensor, Tuple, Union, Unknown, Value, union
from analyzer.records import dataclass, replace
from analyzer.syntax import ir

_ELEMENTWISE = frozenset([
    "relu", "sigmoid", "tanh", "softplus", "exp", "log", "abs", "float", "double", "half", "to", "cuda", "cpu",
    "detach", "clone", "clamp", "contiguous", "sqrt", "leaky_relu", "dropout", "clip", "requires_grad_",
    "bfloat16", "neg", "type", "logsigmoid", "sigmoid_", "relu_", "log1p", "square", "pow", "long", "int",
    "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "ReLU", "Sigmoid", "Tanh", "Softplus",
    "LeakyReLU", "Dropout", "Identity", "ELU", "GELU", "SiLU", "LogSigmoid", "BatchNorm1d",
])  # fmt: skip
_SIZED = frozenset(f"torch.{name}" for name in ("zeros", "ones", "empty", "rand", "randn"))
_LISTED = frozenset(["torch.tensor", "torch.FloatTensor", "torch.LongTensor", "torch.Tensor", "torch.as_tensor"])
_ONE_OUTPUT = {"torch.nn.Linear": (1, "out_features"), "torch.nn.LazyLinear": (0, "out_features"),
               "torch.nn.Bilinear": (2, "out_features")}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast(Event):
    """A column and a flat tensor meet in element-wise arithmetic."""

    column: Trace
    flat: Trace


def of_layer(name: str, arguments: dict[str, Value]) -> Shape:
    """What a layer gives: one number per sample, in a column."""
    place = _ONE_OUTPUT.get(name)
    if place is None:
        return ""
    size = arguments.get(place[1], arguments.get(str(place[0])))
    return "column" if is_number(size, 1) else ""


def after(name: str, args: Args, inputs: tuple[Value, ...], items: tuple[Value, ...] | None) -> Shape:
    """The shape of what a library call returns. `items`: of the list or tuple that it is given first, if known."""
    last = name.rsplit(".", 1)[-1]
    rest = args.positional if len(inputs) > len(args.positional) + len(args.keywords) else args.positional[1:]
    if name in _SIZED:
        return _sized(args, items)
    if name in _LISTED:
        return _listed(items)
    before = shape_of(inputs[0]) if inputs else ""
    if last in _ELEMENTWISE:
        return before
    if last in {"view", "reshape"}:
        sizes = rest[0].items if len(rest) == 1 and isinstance(rest[0], Tuple) else rest
        return _viewed(sizes)
    if last == "gather":
        index = args.keywords.get("index") or (rest[1] if len(rest) > 1 else None)
        is_column = index is not None and shape_of(index) in {"column", "one more"}
        return "column" if is_column or _is_column_index(args.node(len(args.positional) - 1, "index")) else ""
    if last in {"amax", "amin", "argmax", "argmin"}:
        return _largest(args, rest)
    if last in {"flatten", "ravel"}:
        return "flat" if not rest and not args.keywords else ""
    if last in {"squeeze", "unsqueeze", "squeeze_", "unsqueeze_"}:
        is_batch = before == "" and bool(inputs) and all(_is_given(case) for case in inputs[0].cases)
        dim = args.keywords.get("dim") or (rest[0] if rest else None)
        is_last = is_number(dim, 1) or is_number(dim, -1)
        if (
            before == ""
            and not is_batch
            and last.startswith("un")
            and is_last
            and inputs
            and all(map(is_given, inputs[0].cases))
        ):
            return "one more"
        return _squeezed(last.rstrip("_"), before or ("flat" if is_batch and last == "unsqueeze" else ""), dim)
    return ""


def _is_column_index(node: ir.Expr | None) -> bool:
    """``a.unsqueeze(1)``, ``a.view(-1, 1)``, ``a[:, None]``: one index for each row."""
    if isinstance(node, ir.Subscript) and isinstance(node.index, ir.Display):
        last = node.index.items[-1] if node.index.items else None
        return isinstance(last, ir.Constant) and last.value is None
    while isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute) and node.callee.attr in _ELEMENTWISE:
        node = node.callee.value  # ``a.unsqueeze(1).long()``
    if not isinstance(node, ir.Call) or not isinstance(node.callee, ir.Attribute):
        return False
    given = [_constant(arg.value) for arg in node.args]
    return (node.callee.attr == "unsqueeze" and given[-1:] in ([1], [-1])) or (
        node.callee.attr in {"view", "reshape"} and len(given) == 2 and given[1] == 1
    )


def _constant(node: ir.Expr) -> object:
    if isinstance(node, ir.Operation) and node.op == "-" and node.right is None and isinstance(node.left, ir.Constant):
        return -node.left.value if isinstance(node.left.value, int) else None
    return node.value if isinstance(node, ir.Constant) else None


def of_largest(args: Args) -> Shape:
    """``q.max(1)``: the largest of each row, one number per sample."""
    return _largest(args, args.positional)


def _largest(args: Args, rest: tuple[Value, ...]) -> Shape:
    dim = args.keywords.get("dim") or (rest[0] if rest else None)
    if not (is_number(dim, 1) or is_number(dim, -1)):
        return ""
    is_kept = args.keywords.get("keepdim") or (rest[1] if len(rest) > 1 else None)
    if is_kept is None:
        return "flat"
    return "column" if isinstance(is_kept, Const) and is_kept.value is True else ""


def _is_given(case: Value) -> bool:
    """Whether a case is a part of a batch: of whatever shape, with one dimension more it is no flat tensor."""
    return isinstance(case, Tensor) and case.is_batch and not case.is_opaque


def _sized(args: Args, items: tuple[Value, ...] | None) -> Shape:
    sizes = items if items is not None and len(args.positional) == 1 else args.positional
    if len(sizes) == 1 and items is None and not isinstance(sizes[0], (Const, Scalar, Unknown)):
        return ""
    if len(sizes) == 1 and isinstance(sizes[0], (Const, Scalar)) and not is_number(sizes[0], 1):
        return "flat" if not (isinstance(sizes[0], Scalar) and sizes[0].kind == "shape") else ""
    return "column" if len(sizes) == 2 and is_number(sizes[1], 1) and not is_number(sizes[0], 1) else ""


def _listed(items: tuple[Value, ...] | None) -> Shape:
    if items is None or len(items) < 2:
        return ""
    is_numbers = all(isinstance(case, (Const, Scalar)) for item in items for case in item.cases)
    return "flat" if is_numbers else ""


def _viewed(sizes: tuple[Value, ...]) -> Shape:
    if len(sizes) == 1:
        return "flat" if is_number(sizes[0], -1) else ""
    return "column" if len(sizes) == 2 and is_number(sizes[1], 1) and not is_number(sizes[0], 1) else ""


def _squeezed(name: str, before: Shape, dim: Value | None) -> Shape:
    is_last = is_number(dim, -1) or is_number(dim, 1)
    if name == "unsqueeze":
        return "column" if before == "flat" and is_last else ""
    return "flat" if before == "flat" or (before == "column" and (dim is None or is_last)) else ""


def item(case: Tensor | Unknown, index: Value) -> Value:
    """``case[index]``."""
    if marks_in(case.via) and any(isinstance(each, (Tensor, Unknown)) for each in index.cases):
        return unpadded(case)  # chosen by a mask
    return replace(case, shape=indexed(case, index)) if isinstance(case, Tensor) and case.shape else case


def indexed(case: Tensor, index: Value) -> Shape:
    """``x[:, 0]`` of a column, ``x[:, None]`` of a flat tensor."""
    if isinstance(index, Tuple) and len(index.items) == 2:
        first, second = index.items
        if isinstance(first, Scalar) and first.kind == "slice":
            if case.shape == "column" and is_number(second, 0):
                return "flat"
            if case.shape == "flat" and isinstance(second, Const) and second.value is None:
                return "column"
    if case.shape == "flat" and isinstance(index, Tensor) and index.shape != "column":
        return "flat"  # the chosen samples
    return case.shape if isinstance(index, Scalar) and index.kind == "slice" else ""


def shape_of(value: Value) -> Shape:
    """The shape that all cases share."""
    if type(value) is not Union:
        return value.shape if isinstance(value, Tensor) else ""
    shapes = {case.shape if isinstance(case, Tensor) else "" for case in value.cases}
    return shapes.pop() if len(shapes) == 1 else ""


def shaped(value: Value, shape: Shape) -> Value:
    """A value with a shape."""
    if not shape:
        return value
    return union(replace(case, shape=shape) if isinstance(case, Tensor) else case for case in value.cases)


def after_operation(one: Value, two: Value) -> Shape:
    """Arithmetic with a plain number keeps the shape, as does that of two tensors that have the same."""
    first, second = shape_of(one), shape_of(two)
    if isinstance(one, (Const, Scalar)):
        return second
    if isinstance(two, (Const, Scalar)):
        return first
    if first == "flat" and not second and is_given(two):
        return "flat"  # with a reward or a mask of each sample, whatever its shape, it is no column
    if second == "flat" and not first and is_given(one):
        return "flat"
    if first == "column" and second in {"", "one more"} and is_given(two):
        return "column"  # or wider: in no case flat
    if second == "column" and first in {"", "one more"} and is_given(one):
        return "column"
    return first if first == second else ""


def is_given(case: Value) -> bool:
    """Whether a case is a tensor, or unknown, and no output of a network."""
    return isinstance(case, (Tensor, Unknown)) and not case.roots


def is_number(value: Value | None, number: int) -> bool:
    """Whether a value is this constant."""
    return isinstance(value, Const) and type(value.value) is int and value.value == number
