"""Tensors that are made of nothing: zeros, ranges, random numbers, masks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzer.networks.arithmetic import broadcast
from analyzer.networks.operations import MAX_ELEMENTS, number, numbers, operation, tensor
from analyzer.networks.tape import Tape
from analyzer.networks.values import Missing, Stuck, Tensor


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
    if is_float or not count:
        return Tensor((count,), "float" if is_float else "int", is_full=True)
    most = int(max(start, start + (count - 1) * step))
    return Tensor((count,), "int", is_full=True, most=most)


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
