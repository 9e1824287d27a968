"""What library functions make of shapes, and what autograd keeps for them.

A function takes the tape, the arguments and the keywords, and gives a `Tensor`, several, or a number. A shape that
cannot be raises `Stuck`: then the input was another one, or the text is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module, resources
from sys import version_info
from typing import Any, TypeVar

from analyzer.networks.tape import Tape
from analyzer.networks.values import Missing, Stuck, Tensor

Operation = Callable[..., object]
F = TypeVar("F", bound=Operation)
OPERATIONS: dict[str, Operation] = {}
_TOML: Any = import_module("tomllib" if version_info >= (3, 11) else "tomli")
MAX_ELEMENTS = 1 << 44


def operation(*names: str) -> Callable[[F], F]:
    """Register a function under the last part of the names it has in torch."""

    def register(function: F) -> F:
        for name in names:
            OPERATIONS[name] = function
        return function

    return register


@lru_cache(maxsize=1)
def _table() -> Mapping[str, frozenset[str]]:
    text = (resources.files("analyzer.networks") / "operations.toml").read_text("utf-8")
    return {kind: frozenset(names) for kind, names in _TOML.loads(text)["elementwise"].items()}


def find(name: str) -> Operation | None:
    """The operation that a qualified name or a method of a tensor means."""
    last = name.rpartition(".")[2]
    if last in OPERATIONS:
        return OPERATIONS[last]
    table = _table()
    if any(last in table[kind] for kind in ("result", "input", "nothing")):
        return lambda tape, *args, **keywords: _elementwise(tape, last, args, keywords)
    return None


def tensor(value: object) -> Tensor:
    """The value as a tensor. Raises `Stuck` for anything else."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Missing):
        raise Stuck(value.reason)
    raise Stuck("a tensor is expected here")


def number(value: object) -> int:
    """The value as a whole number. Raises `Stuck`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise Stuck(value.reason if isinstance(value, Missing) else "a whole number is expected here")
    return int(value)


def numbers(values: Sequence[object]) -> tuple[int, ...]:
    """Sizes or dimensions given one by one or as one sequence."""
    if len(values) == 1 and isinstance(values[0], (list, tuple)):
        values = values[0]
    return tuple(number(value) for value in values)


def _elementwise(tape: Tape, name: str, args: Sequence[object], keywords: Mapping[str, object]) -> object:
    table = _table()
    given = tensor(args[0] if args else keywords.get("input"))
    is_in_place = name in table["in_place"] or keywords.get("inplace") is True
    is_full = True if name in table["full"] else False if name in table["half"] else None
    if name in ("to", "type", "type_as"):
        is_full = _said_type(args[1:], keywords, given)
    if name in table["nothing"]:
        return _unkept(tape, name, given, is_full)
    if name in table["input"] and given.needs_grad:
        (tape.widened if name in table["full"] else tape.keep)(given)
    made = given if is_in_place else tape.result(given.shape, [given], given.dtype, is_full=is_full)
    if name in table["result"] and given.needs_grad:
        tape.keep(made)
    return made


def _unkept(tape: Tape, name: str, given: Tensor, is_full: bool | None) -> Tensor:
    table = _table()
    dtype = "int" if name in table["whole"] else "bool" if name in table["truth"] else given.dtype
    if name in table["cut"] or dtype != "float":
        return Tensor(given.shape, dtype, is_full=given.is_full, kept=given.kept if name == "detach" else set())
    if is_full is None or is_full == given.is_full:
        return tape.view(given, given.shape)
    return tape.result(given.shape, [given], given.dtype, is_full=is_full)


def _said_type(args: Sequence[object], keywords: Mapping[str, object], given: Tensor) -> bool | None:
    for value in (*args, *keywords.values()):
        name = getattr(value, "name", "")
        if name in ("torch.float32", "torch.float", "torch.float64", "torch.double"):
            return True
        if name in ("torch.float16", "torch.half", "torch.bfloat16"):
            return False
        if isinstance(value, Tensor):
            return value.is_full
    return given.is_full


# --- arithmetic -------------------------------------------------------------------------------------------------


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
    strides, dilations = _each(stride, dims), _each(dilation, dims)
    for index in range(dims):
        reach = dilations[index] * (w.shape[2 + index] - 1)
        size = x.shape[index - dims]
        if padding == "same":
            sizes.append(size)
            continue
        pad = 0 if padding == "valid" else _each(padding, dims)[index]
        sizes.append((size + 2 * pad - reach - 1) // strides[index] + 1)
    if w.needs_grad:
        tape.operand(x, has_weight=True)
    return tape.result((*x.shape[: -dims - 1], w.shape[0], *_positive(sizes)), [x, w, bias], is_full=False)


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
    each = [_each(value, dims) for value in (stride, padding, output_padding, dilation)]
    sizes = [
        (x.shape[index - dims] - 1) * each[0][index] - 2 * each[1][index]
        + each[3][index] * (w.shape[2 + index] - 1) + each[2][index] + 1
        for index in range(dims)
    ]  # fmt: skip
    if w.needs_grad:
        tape.operand(x, has_weight=True)
    shape = (*x.shape[: -dims - 1], w.shape[1] * number(groups), *_positive(sizes))
    return tape.result(shape, [x, w, bias], is_full=False)


def _each(value: object, dims: int) -> tuple[int, ...]:
    if isinstance(value, (list, tuple)):
        return numbers(value) if len(value) == dims else numbers(value) * dims
    return (number(value),) * dims


def _positive(sizes: Sequence[int]) -> Sequence[int]:
    if any(size < 1 for size in sizes):
        raise Stuck("the input is too small for its kernels")
    return sizes


# --- norms, dropout, softmax ------------------------------------------------------------------------------------


@operation("batch_norm", "instance_norm", "group_norm")
def norm(tape: Tape, given: object, *args: object, **keywords: object) -> Tensor:
    """Keeps its input; in the input's precision."""
    x = tensor(given)
    parts = [x, *args, *keywords.values()]
    made = tape.result(x.shape, parts)
    if made.is_grad:
        tape.keep(x)
    return made


@operation("layer_norm", "rms_norm")
def layer_norm(tape: Tape, given: object, *args: object, **keywords: object) -> Tensor:
    """Keeps its input; autocast computes it in fp32."""
    x = tensor(given)
    made = tape.result(x.shape, [x, *args, *keywords.values()], is_full=True)
    if made.is_grad:
        tape.widened(x)
    return made


@operation("softmax", "log_softmax", "gumbel_softmax", "softmin")
def softmax(tape: Tape, given: object, *_: object, **__: object) -> Tensor:
    """Keeps its result; autocast computes it in fp32."""
    x = tensor(given)
    made = tape.result(x.shape, [x], is_full=True)
    if made.is_grad:
        tape.keep(made)
    return made


@operation("normalize")
def normalize(tape: Tape, given: object, *_: object, **__: object) -> Tensor:
    """A division by the norm: keeps input and quotient."""
    x = tensor(given)
    made = tape.result(x.shape, [x])
    if made.is_grad:
        tape.keep(x)
    return made


@operation("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout")
def dropout(tape: Tape, given: object, p: object = 0.5, training: object = True, inplace: object = False) -> Tensor:
    """Keeps a mask of one byte per number (native_dropout)."""
    x = tensor(given)
    if p in (0, 0.0) or training is False or not tape.is_training or isinstance(p, Missing):
        return x
    made = tape.result(x.shape, [x])
    if made.is_grad:
        tape.mask(made)
    return made


@operation("scaled_dot_product_attention", "flash_attn_func")
def attention(tape: Tape, query: object, key: object, value: object, *args: object, **keywords: object) -> Tensor:
    """The fused kernel keeps queries, keys, values, its result and one number per row."""
    q, k, v = tensor(query), tensor(key), tensor(value)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise Stuck(f"attention over {list(q.shape)}, {list(k.shape)}, {list(v.shape)}")
    made = tape.result((*q.shape[:-1], v.shape[-1]), [q, k, v], is_full=False)
    if made.is_grad:
        for each in (q, k, v):
            tape.operand(each, has_weight=False)
        tape.keep(made)
        tape.full += math.prod(q.shape[:-1]) if tape.is_recording else 0
    return made


# --- pooling and resizing ---------------------------------------------------------------------------------------


@operation("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(tape: Tape, given: object, kernel_size: object, stride: object = None, padding: object = 0,
             dilation: object = 1, ceil_mode: object = False, **_: object) -> Tensor:  # fmt: skip
    """Keeps its input and the positions of the maxima."""
    x = tensor(given)
    made = _pooled(tape, x, kernel_size, stride, padding, dilation, ceil_mode)
    if made.is_grad:
        tape.keep(x)
        tape.positions(made.elements)
    return made


@operation("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(tape: Tape, given: object, kernel_size: object, stride: object = None, padding: object = 0,
             ceil_mode: object = False, *_: object, **__: object) -> Tensor:  # fmt: skip
    """Its backward asks for the input."""
    x = tensor(given)
    made = _pooled(tape, x, kernel_size, stride, padding, 1, ceil_mode)
    if made.is_grad:
        tape.keep(x)
    return made


def _pooled(
    tape: Tape, x: Tensor, kernel: object, stride: object, padding: object, dilation: object, ceil_mode: object
) -> Tensor:
    dims = min(len(x.shape) - 2, len(kernel) if isinstance(kernel, (list, tuple)) else 3)
    if dims < 1:
        raise Stuck(f"pooling of {list(x.shape)}")
    kernels, pads, dilations = _each(kernel, dims), _each(padding, dims), _each(dilation, dims)
    strides = kernels if stride in (None, [], ()) else _each(stride, dims)
    sizes: list[int] = []
    for index in range(dims):
        room = x.shape[index - dims] + 2 * pads[index] - dilations[index] * (kernels[index] - 1) - 1
        sizes.append((-(-room // strides[index]) if ceil_mode is True else room // strides[index]) + 1)
    return tape.result((*x.shape[:-dims], *_positive(sizes)), [x])


@operation("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
           "adaptive_max_pool2d", "adaptive_max_pool3d")  # fmt: skip
def adaptive_pool(tape: Tape, given: object, output_size: object, **_: object) -> Tensor:
    """Keeps its input; averaging to one number is a mean, which keeps nothing (torch does it so)."""
    x = tensor(given)
    dims = len(x.shape) - 2
    if dims < 1:
        raise Stuck(f"pooling of {list(x.shape)}")
    wanted = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * dims
    if len(wanted) != dims:
        raise Stuck("a pooled size of another number of dimensions")
    sizes = [x.shape[index - dims] if size is None else number(size) for index, size in enumerate(wanted)]
    made = tape.result((*x.shape[:-dims], *sizes), [x])
    if made.is_grad and any(size != 1 for size in sizes):
        tape.keep(x)
    return made


@operation("interpolate", "upsample", "resize")
def interpolate(tape: Tape, given: object, size: object = None, scale_factor: object = None, *_: object,
                **__: object) -> Tensor:  # fmt: skip
    """Keeps nothing."""
    x = tensor(given)
    dims = len(x.shape) - 2
    if size is not None:
        sizes = _each(size, dims)
    elif scale_factor is not None:
        factors = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * dims
        if not all(isinstance(each, (int, float)) for each in factors):
            raise Stuck("a scale that the text does not show")
        sizes = tuple(int(x.shape[index - dims] * factor) for index, factor in enumerate(factors))
    else:
        raise Stuck("neither size nor scale")
    return tape.result((*x.shape[:-dims], *_positive(sizes)), [x])


@operation("pad")
def pad(tape: Tape, given: object, widths: object, *_: object, **__: object) -> Tensor:
    """Keeps nothing."""
    x = tensor(given)
    amounts = numbers(widths if isinstance(widths, (list, tuple)) else [widths])
    shape = list(x.shape)
    for index in range(0, len(amounts) - 1, 2):
        shape[-1 - index // 2] += amounts[index] + amounts[index + 1]
    return tape.result(_positive(shape), [x], x.dtype)


@operation("pixel_shuffle")
def pixel_shuffle(tape: Tape, given: object, factor: object) -> Tensor:
    """Channels become pixels."""
    x, times = tensor(given), number(factor)
    *batch, channels, height, width = x.shape
    if channels % times**2:
        raise Stuck("channels that do not make pixels")
    return tape.result((*batch, channels // times**2, height * times, width * times), [x])


@operation("pixel_unshuffle")
def pixel_unshuffle(tape: Tape, given: object, factor: object) -> Tensor:
    """Pixels become channels."""
    x, times = tensor(given), number(factor)
    *batch, channels, height, width = x.shape
    if height % times or width % times:
        raise Stuck("pixels that do not make channels")
    return tape.result((*batch, channels * times**2, height // times, width // times), [x])


# --- losses and embeddings --------------------------------------------------------------------------------------


@operation("cross_entropy")
def cross_entropy(tape: Tape, given: object, *_: object, **__: object) -> Tensor:
    """Keeps the log-probabilities, in fp32."""
    x = tensor(given)
    if x.needs_grad:
        tape.keep(tape.result(x.shape, [x], is_full=True))
    return tape.result((), [x], is_full=True)


@operation(
    "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cosine_similarity", "triplet_margin_loss", "poisson_nll_loss",
)  # fmt: skip
def loss(tape: Tape, given: object, *args: object, **keywords: object) -> Tensor:
    """Keeps what it compares."""
    parts = [each for each in (given, *args, *keywords.values()) if isinstance(each, Tensor)]
    if any(each.needs_grad for each in parts):
        for each in parts:
            tape.keep(each)
    return tape.result((), parts, is_full=True)


@operation("embedding")
def embedding(tape: Tape, indices: object, weight: object, *_: object, **__: object) -> Tensor:
    """Keeps the indices."""
    ids, w = tensor(indices), tensor(weight)
    if ids.dtype == "float":
        raise Stuck("an embedding of numbers that are no indices")
    made = tape.result((*ids.shape, w.shape[1]), [w], is_full=True)
    if made.is_grad:
        tape.keep(ids)
    return made


@operation("one_hot")
def one_hot(tape: Tape, given: object, classes: object = -1) -> Tensor:
    """Integers."""
    return Tensor((*tensor(given).shape, number(classes)), "int")


# --- making and comparing ---------------------------------------------------------------------------------------


@operation("zeros", "ones", "empty", "randn", "rand", "full")
def created(tape: Tape, *sizes: object, **keywords: object) -> Tensor:
    """A new tensor of these sizes."""
    given: Sequence[object] = sizes or (keywords.get("size", ()),)
    if len(given) == 2 and isinstance(given[0], (list, tuple)):  # full(size, value)
        given = (given[0],)
    shape = numbers(given)
    if math.prod(shape) > MAX_ELEMENTS or any(size < 0 for size in shape):
        raise Stuck("a tensor of an absurd size")
    return Tensor(shape, "int" if "int" in str(getattr(keywords.get("dtype"), "name", "")) else "float", is_full=True)


@operation("zeros_like", "ones_like", "randn_like", "rand_like", "empty_like", "full_like")
def like(tape: Tape, given: object, *_: object, **__: object) -> Tensor:
    """A new tensor of the same shape."""
    return Tensor(tensor(given).shape, tensor(given).dtype, is_full=tensor(given).is_full)


@operation("arange")
def arange(tape: Tape, *ends: object, **keywords: object) -> Tensor:
    """Counting."""
    given = [*ends, *(keywords[name] for name in ("start", "end") if name in keywords)]
    if not all(isinstance(each, (int, float)) for each in given) or not given:
        raise Stuck("a range that the text does not show")
    start, end = (0, given[0]) if len(given) == 1 else given[:2]
    step = given[2] if len(given) > 2 else keywords.get("step", 1)
    if not isinstance(step, (int, float)) or not step:
        raise Stuck("a range that the text does not show")
    count = max(math.ceil((end - start) / step), 0)  # type: ignore[operator]
    is_float = any(isinstance(each, float) for each in given) or "float" in str(
        getattr(keywords.get("dtype"), "name", "")
    )
    return Tensor((count,), "float" if is_float else "int", is_full=True)


@operation("linspace", "logspace")
def linspace(tape: Tape, start: object, end: object, steps: object = 100, **_: object) -> Tensor:
    """So many numbers."""
    return Tensor((number(steps),), is_full=True)


@operation("randint")
def randint(tape: Tape, *given: object, **keywords: object) -> Tensor:
    """Integers of a size."""
    size = keywords.get("size", given[-1] if given else ())
    return Tensor(numbers([size]), "int")


@operation("randperm")
def randperm(tape: Tape, count: object, **_: object) -> Tensor:
    """A permutation."""
    return Tensor((number(count),), "int")


@operation("Tensor", "FloatTensor", "LongTensor", "IntTensor", "HalfTensor", "DoubleTensor")
def of_sizes(tape: Tape, *given: object, **keywords: object) -> object:
    """A tensor of these sizes, or of numbers that are written down."""
    if given and all(isinstance(each, int) for each in given):
        return created(tape, *given)
    return made_of(tape, *given[:1], **keywords)


@operation("tensor", "as_tensor", "from_numpy")
def made_of(tape: Tape, value: object = (), **_: object) -> object:
    """A tensor of numbers that are written down."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)):
        shape: list[int] = []
        inner: object = value
        while isinstance(inner, (list, tuple)):
            shape.append(len(inner))
            inner = inner[0] if inner else None
        return Tensor(tuple(shape), "int" if isinstance(inner, int) else "float", is_full=True)
    if isinstance(value, (int, float)):
        return Tensor((), "int" if isinstance(value, int) else "float", is_full=True)
    return Missing("a tensor of numbers that the text does not show")


@operation("eye")
def eye(tape: Tape, rows: object, columns: object = None, **_: object) -> Tensor:
    """A square of ones and zeros."""
    return Tensor((number(rows), number(rows if columns is None else columns)), is_full=True)


@operation("outer", "ger")
def outer(tape: Tape, left: object, right: object) -> Tensor:
    """Every number times every other."""
    one, other = tensor(left), tensor(right)
    return tape.result((one.elements, other.elements), [one, other])


@operation("where")
def where(tape: Tape, condition: object, left: object, right: object) -> Tensor:
    """Keeps the condition, a byte each."""
    parts = [each for each in (condition, left, right) if isinstance(each, Tensor)]
    made = tape.result(broadcast([each.shape for each in parts]), parts[1:] or parts)
    if made.is_grad:
        tape.mask(tensor(condition))
    return made
