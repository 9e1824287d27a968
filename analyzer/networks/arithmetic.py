"""Operations on numbers: arithmetic with broadcasting, products, linear layers, convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.networks.operations import OPERATIONS, number, numbers, operation, tensor
from analyzer.networks.tape import Tape
from analyzer.networks.values import Missing, Stuck, Tensor


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that several broadcast to. Raises `Stuck` where they do not."""
    width = max(map(len, shapes), default=0)
    made: list[int] = []
    for index in range(width):
        sizes = {shape[index - width + len(shape)] for shape in shapes if index - width + len(shape) >= 0}
        sizes.discard(1)
        if len(sizes) > 1:
            raise Stuck(f"shapes {' and '.join(str(list(shape)) for shape in shapes)} do not broadcast")
        made.append(sizes.pop() if sizes else 1)
    return tuple(made)


def arithmetic(tape: Tape, op: str, left: object, right: object) -> object:
    """``left op right`` where one of the two is a tensor."""
    if op == "matmul":
        return matmul(tape, left, right)
    tensors = [each for each in (left, right) if isinstance(each, Tensor)]
    if any(isinstance(each, Missing) for each in (left, right)):
        raise Stuck(next(each.reason for each in (left, right) if isinstance(each, Missing)))
    shape = broadcast([each.shape for each in tensors])
    if op == "compare":
        return Tensor(shape, "bool")
    dtype = "float" if any(each.dtype == "float" for each in tensors) or op == "div" else "int"
    if op == "mul":
        _keep_factors(tape, left, right)
    elif op == "div" and isinstance(right, Tensor) and right.needs_grad:
        _keep_factors(tape, left, right)
        tape.keep(right)
    elif op == "div" and isinstance(right, Tensor) and isinstance(left, Tensor) and left.needs_grad:
        tape.keep(right)
    elif op == "pow" and isinstance(left, Tensor) and left.needs_grad:
        tape.widened(left)
    return tape.result(shape, tensors, dtype, is_full=True if op == "pow" else None)  # type: ignore[arg-type]


def _keep_factors(tape: Tape, left: object, right: object) -> None:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Tensor) and one.needs_grad and isinstance(other, Tensor) and other.dtype == "float":
            tape.keep(other)


for _name, _op in (
    ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "div"), ("multiply", "mul"), ("subtract", "sub"),
    ("true_divide", "div"), ("divide", "div"), ("pow", "pow"), ("maximum", "add"), ("minimum", "add"),
    ("eq", "compare"), ("ne", "compare"), ("gt", "compare"), ("ge", "compare"), ("lt", "compare"), ("le", "compare"),
    ("logical_and", "compare"), ("logical_or", "compare"), ("add_", "add"), ("sub_", "sub"), ("mul_", "mul"),
    ("div_", "div"), ("atan2", "mul"), ("remainder", "sub"), ("floor_divide", "sub"),
):  # fmt: skip
    OPERATIONS[_name] = lambda tape, left, right, _op=_op, **_: arithmetic(tape, _op, left, right)


def _has_weight(one: Tensor, other: Tensor) -> bool:
    return other.is_parameter and not other.is_frozen


@operation("matmul", "bmm", "mm", "baddbmm")
def matmul(tape: Tape, left: object, right: object, **_: object) -> Tensor:
    """Batched product: keeps each side that the other's gradient needs."""
    one, other = tensor(left), tensor(right)
    if len(one.shape) < 1 or len(other.shape) < 1:
        raise Stuck("a product of scalars")
    columns = other.shape[-2] if len(other.shape) > 1 else other.shape[0]
    if one.shape[-1] != columns:
        raise Stuck(f"a product of {list(one.shape)} and {list(other.shape)}")
    if other.needs_grad:
        tape.operand(one, has_weight=_has_weight(one, other))
    if one.needs_grad:
        tape.operand(other, has_weight=_has_weight(other, one))
    batch = broadcast([one.shape[:-2], other.shape[:-2]])
    rows = one.shape[-2:-1]
    cols = other.shape[-1:] if len(other.shape) > 1 else ()
    return tape.result((*batch, *rows, *cols), [one, other], is_full=False)


@operation("linear")
def linear(tape: Tape, given: object, weight: object, bias: object = None) -> Tensor:
    """Keeps its input where its weight is trained."""
    x, w = tensor(given), tensor(weight)
    if len(w.shape) != 2 or not x.shape or x.shape[-1] != w.shape[1]:
        raise Stuck(f"a linear layer of {list(w.shape)} is given {list(x.shape)}")
    if w.needs_grad:
        tape.operand(x, has_weight=True)
    return tape.result((*x.shape[:-1], w.shape[0]), [x, w, bias], is_full=False)


@operation("conv1d", "conv2d", "conv3d")
def conv(
    tape: Tape, given: object, weight: object, bias: object = None, stride: object = 1, padding: object = 0,
    dilation: object = 1, groups: object = 1,
) -> Tensor:  # fmt: skip
    """Keeps its input where its weight is trained."""
    x, w = tensor(given), tensor(weight)
    dims = len(w.shape) - 2
    if len(x.shape) not in (dims + 2, dims + 1) or x.shape[-dims - 1] != w.shape[1] * number(groups):
        raise Stuck(f"a convolution of {list(w.shape)} is given {list(x.shape)}")
    sizes: list[int] = []
    strides, dilations = each_size(stride, dims), each_size(dilation, dims)
    for index in range(dims):
        reach = dilations[index] * (w.shape[2 + index] - 1)
        size = x.shape[index - dims]
        if padding == "same":
            sizes.append(size)
            continue
        pad = 0 if padding == "valid" else each_size(padding, dims)[index]
        sizes.append((size + 2 * pad - reach - 1) // strides[index] + 1)
    if w.needs_grad:
        tape.operand(x, has_weight=True)
    return tape.result((*x.shape[: -dims - 1], w.shape[0], *positive(sizes)), [x, w, bias], is_full=False)


@operation("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(
    tape: Tape, given: object, weight: object, bias: object = None, stride: object = 1, padding: object = 0,
    output_padding: object = 0, groups: object = 1, dilation: object = 1,
) -> Tensor:  # fmt: skip
    """Keeps its input where its weight is trained."""
    x, w = tensor(given), tensor(weight)
    dims = len(w.shape) - 2
    if len(x.shape) not in (dims + 2, dims + 1) or x.shape[-dims - 1] != w.shape[0]:
        raise Stuck(f"a transposed convolution of {list(w.shape)} is given {list(x.shape)}")
    each = [each_size(value, dims) for value in (stride, padding, output_padding, dilation)]
    sizes = [
        (x.shape[index - dims] - 1) * each[0][index] - 2 * each[1][index]
        + each[3][index] * (w.shape[2 + index] - 1) + each[2][index] + 1
        for index in range(dims)
    ]  # fmt: skip
    if w.needs_grad:
        tape.operand(x, has_weight=True)
    shape = (*x.shape[: -dims - 1], w.shape[1] * number(groups), *positive(sizes))
    return tape.result(shape, [x, w, bias], is_full=False)


def each_size(value: object, dims: int) -> tuple[int, ...]:
    if isinstance(value, (list, tuple)):
        return numbers(value) if len(value) == dims else numbers(value) * dims
    return (number(value),) * dims


def positive(sizes: Sequence[int]) -> Sequence[int]:
    if any(size < 1 for size in sizes):
        raise Stuck("the input is too small for its kernels")
    return sizes
