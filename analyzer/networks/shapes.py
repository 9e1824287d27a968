"""Operations that only move numbers: views, joins, splits, indices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzer.networks import strides
from analyzer.networks.operations import number, numbers, operation, tensor
from analyzer.networks.sizes import MAX_NUMBER
from analyzer.networks.tape import MAX_ELEMENTS, Tape
from analyzer.networks.values import Missing, Stuck, Tensor


def dim_of(dim: object, rank: int) -> int:
    at = number(dim)
    if not -rank <= at < rank:
        raise Stuck(f"dimension {at} of {rank}")
    return at % rank if rank else 0


@operation("view", "reshape", "view_as", "reshape_as")
def reshape(tape: Tape, given: object, *sizes: object, **keywords: object) -> Tensor:
    """Another shape of as many numbers."""
    x = tensor(given)
    if len(sizes) == 1 and isinstance(sizes[0], Tensor):
        sizes = (sizes[0].shape,)
    wanted = list(numbers(sizes or (keywords.get("shape", ()),)))
    if wanted.count(-1) > 1:
        raise Stuck("two sizes that follow from the others")
    known = math.prod(size for size in wanted if size != -1)
    if -1 in wanted:
        if not known or x.elements % known:
            raise Stuck(f"{list(x.shape)} seen as {wanted}")
        wanted[wanted.index(-1)] = x.elements // known
    elif known != x.elements:
        raise Stuck(f"{list(x.shape)} seen as {wanted}")
    return tape.reshaped(x, wanted)


@operation("flatten")
def flatten(tape: Tape, given: object, start_dim: object = 0, end_dim: object = -1) -> Tensor:
    """Several dimensions as one."""
    x = tensor(given)
    if not x.shape:
        return tape.view(x, (1,))
    first, last = dim_of(start_dim, len(x.shape)), dim_of(end_dim, len(x.shape))
    if last < first:
        raise Stuck("nothing to flatten")
    return tape.reshaped(x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@operation("unflatten")
def unflatten(tape: Tape, given: object, dim: object, sizes: object) -> Tensor:
    """One dimension as several."""
    x = tensor(given)
    at, wanted = dim_of(dim, len(x.shape)), list(numbers([sizes]))
    known = math.prod(size for size in wanted if size != -1)
    wanted = [x.shape[at] // known if size == -1 else size for size in wanted]
    if math.prod(wanted) != x.shape[at]:
        raise Stuck(f"{x.shape[at]} seen as {wanted}")
    return tape.reshaped(x, (*x.shape[:at], *wanted, *x.shape[at + 1 :]))


@operation("permute")
def permute(tape: Tape, given: object, *dims: object, **keywords: object) -> Tensor:
    """Dimensions in another order."""
    x = tensor(given)
    order = [dim_of(dim, len(x.shape)) for dim in numbers(dims or (keywords.get("dims", ()),))]
    if sorted(order) != list(range(len(x.shape))):
        raise Stuck(f"an order of dimensions {order} of {len(x.shape)}")
    return _ordered(tape, x, order)


@operation("transpose", "swapaxes", "transpose_")
def transpose(tape: Tape, given: object, one: object, other: object) -> Tensor:
    """Two dimensions change places."""
    x = tensor(given)
    order = list(range(len(x.shape)))
    a, b = dim_of(one, len(order)), dim_of(other, len(order))
    order[a], order[b] = order[b], order[a]
    return _ordered(tape, x, order)


def _ordered(tape: Tape, x: Tensor, order: Sequence[int]) -> Tensor:
    shape, steps = [x.shape[at] for at in order], strides.of(x.shape, x.strides)
    return tape.view(x, shape, strides.normal(shape, [steps[at] for at in order]))


@operation("t", "T", "mT")
def transposed(tape: Tape, given: object) -> Tensor:
    """Rows and columns change places."""
    x = tensor(given)
    last = list(range(len(x.shape)))
    return _ordered(tape, x, [*last[:-2], *last[-2:][::-1]])


@operation("unsqueeze", "unsqueeze_")
def unsqueeze(tape: Tape, given: object, dim: object) -> Tensor:
    """A dimension of one."""
    x = tensor(given)
    at = dim_of(dim, len(x.shape) + 1)
    return tape.reshaped(x, (*x.shape[:at], 1, *x.shape[at:]))


@operation("squeeze", "squeeze_")
def squeeze(tape: Tape, given: object, dim: object = None) -> Tensor:
    """Without dimensions of one."""
    x = tensor(given)
    if dim is None:
        return tape.reshaped(x, [size for size in x.shape if size != 1])
    dims = {dim_of(each, len(x.shape)) for each in (dim if isinstance(dim, (list, tuple)) else (dim,))}
    return tape.reshaped(x, [size for at, size in enumerate(x.shape) if at not in dims or size != 1])


@operation("expand", "broadcast_to")
def expand(tape: Tape, given: object, *sizes: object) -> Tensor:
    """The same numbers several times, without a copy."""
    x, wanted = tensor(given), list(numbers(sizes))
    old = [1] * (len(wanted) - len(x.shape)) + list(x.shape)
    for at, size in enumerate(wanted):
        if size == -1:
            wanted[at] = old[at]
        elif old[at] not in (1, size):
            raise Stuck(f"{list(x.shape)} expanded to {wanted}")
    before = [0] * (len(wanted) - len(x.shape)) + list(strides.of(x.shape, x.strides))
    steps = [step if was == now else 0 for step, was, now in zip(before, old, wanted, strict=True)]
    if math.prod(wanted) > MAX_ELEMENTS:
        raise Stuck("a tensor of an absurd size")
    return tape.view(x, wanted, strides.normal(wanted, steps))


@operation("expand_as")
def expand_as(tape: Tape, given: object, other: object) -> Tensor:
    """See `expand`."""
    return expand(tape, given, tensor(other).shape)


@operation("repeat", "tile")
def repeat(tape: Tape, given: object, *times: object) -> Tensor:
    """A copy, so many times."""
    x, counts = tensor(given), numbers(times)
    old = [1] * (len(counts) - len(x.shape)) + list(x.shape)
    counts = (1,) * (len(old) - len(counts)) + counts
    return tape.result([size * count for size, count in zip(old, counts, strict=True)], [x], x.dtype)


@operation("repeat_interleave")
def repeat_interleave(tape: Tape, given: object, repeats: object, dim: object = None) -> Tensor:
    """Each item so many times."""
    x, count = tensor(given), number(repeats)
    if dim is None:
        return tape.result((x.elements * count,), [x], x.dtype)
    at = dim_of(dim, len(x.shape))
    return tape.result([size * (count if index == at else 1) for index, size in enumerate(x.shape)], [x], x.dtype)


@operation("cat", "concat", "concatenate", "hstack")
def cat(tape: Tape, given: object, dim: object = 0, **keywords: object) -> Tensor:
    """A copy of all, one after the other."""
    parts = [tensor(each) for each in _several(given)]
    at = dim_of(keywords.get("axis", dim), len(parts[0].shape))
    for part in parts:
        if len(part.shape) != len(parts[0].shape) or any(
            one != other for i, (one, other) in enumerate(zip(part.shape, parts[0].shape, strict=True)) if i != at
        ):
            raise Stuck(f"{' and '.join(str(list(part.shape)) for part in parts[:3])} joined along {at}")
    shape = list(parts[0].shape)
    shape[at] = sum(part.shape[at] for part in parts)
    return tape.result(shape, parts, parts[0].dtype)


@operation("stack")
def stack(tape: Tape, given: object, dim: object = 0) -> Tensor:
    """A copy of all along a new dimension."""
    parts = [tensor(each) for each in _several(given)]
    at = dim_of(dim, len(parts[0].shape) + 1)
    if any(part.shape != parts[0].shape for part in parts):
        raise Stuck("tensors of several shapes are stacked")
    return tape.result((*parts[0].shape[:at], len(parts), *parts[0].shape[at:]), parts, parts[0].dtype)


def _several(given: object) -> Sequence[object]:
    if isinstance(given, Missing):
        raise Stuck(given.reason)
    if not isinstance(given, (list, tuple)) or not given:
        raise Stuck("a list of tensors that the text does not show")
    return given


@operation("split", "tensor_split")
def split(tape: Tape, given: object, sizes: object, dim: object = 0) -> tuple[Tensor, ...]:
    """Parts of these sizes."""
    x = tensor(given)
    at = dim_of(dim, len(x.shape))
    if isinstance(sizes, (list, tuple)):
        parts = numbers(sizes)
        if sum(parts) != x.shape[at]:
            raise Stuck(f"{x.shape[at]} split into {list(parts)}")
    else:
        size = max(number(sizes), 1)
        parts = tuple(min(size, x.shape[at] - begin) for begin in range(0, x.shape[at], size))
    return tuple(_part(tape, x, at, size) for size in parts[:4096])


@operation("chunk")
def chunk(tape: Tape, given: object, chunks: object, dim: object = 0) -> tuple[Tensor, ...]:
    """So many parts."""
    x = tensor(given)
    size = -(-x.shape[dim_of(dim, len(x.shape))] // max(number(chunks), 1))
    return split(tape, x, max(size, 1), dim)


@operation("unbind")
def unbind(tape: Tape, given: object, dim: object = 0) -> tuple[Tensor, ...]:
    """Each along a dimension."""
    x = tensor(given)
    at = dim_of(dim, len(x.shape))
    shape, steps = (*x.shape[:at], *x.shape[at + 1 :]), strides.of(x.shape, x.strides)
    steps = (*steps[:at], *steps[at + 1 :])
    return tuple(tape.part(x, shape, steps) for _ in range(min(x.shape[at], 4096)))


@operation("narrow")
def narrow(tape: Tape, given: object, dim: object, start: object, length: object) -> Tensor:
    """A part."""
    x = tensor(given)
    return _part(tape, x, dim_of(dim, len(x.shape)), number(length))


def _part(tape: Tape, x: Tensor, at: int, size: int) -> Tensor:
    return tape.part(x, (*x.shape[:at], size, *x.shape[at + 1 :]), strides.of(x.shape, x.strides))


@operation("gather", "take_along_dim", "scatter", "scatter_", "scatter_add", "scatter_add_", "index_add", "index_add_")
def gather(tape: Tape, given: object, dim: object, index: object, *_: object, **__: object) -> Tensor:
    """Keeps the index."""
    x = tensor(given)
    if isinstance(index, Tensor) and x.needs_grad:
        tape.keep(index)
    return tape.result(index.shape if isinstance(index, Tensor) else x.shape, [x], x.dtype)


@operation("index_select")
def index_select(tape: Tape, given: object, dim: object, index: object) -> Tensor:
    """Keeps the index."""
    x, ids = tensor(given), tensor(index)
    tape.keep(ids)
    at = dim_of(dim, len(x.shape))
    return tape.result((*x.shape[:at], ids.elements, *x.shape[at + 1 :]), [x], x.dtype)


def indexed(tape: Tape, x: Tensor, index: object) -> Tensor:
    """``x[index]``. Several lists or tensors of positions select together: the first says how many, and they copy."""
    shape: list[int] = []
    steps: list[int] = []
    lie = strides.of(x.shape, x.strides)
    at = 0
    has_list = False
    for part in _written_out(x, list(index) if isinstance(index, tuple) else [index]):
        if part is None:
            shape.append(1)
            steps.append(1)
            continue
        if at >= len(x.shape):
            raise Stuck(f"{list(x.shape)} has no dimension {at}")
        sizes = _chosen(part, x.shape[at])
        is_list = isinstance(part, (Tensor, list, range))
        shape += [] if is_list and has_list else sizes
        steps += [lie[at] * (part.step or 1) if isinstance(part, slice) else 1] * len(sizes)
        has_list = has_list or is_list
        at += 1
    shape += x.shape[at:]
    return tape.result(shape, [x], x.dtype) if has_list else tape.part(x, shape, [*steps, *lie[at:]])


def _written_out(x: Tensor, parts: list[object]) -> list[object]:
    """The parts of an index with ``...`` as so many full slices."""
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    if at is not None:
        used = sum(1 for part in parts if part is not None and part is not Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(x.shape) - used)
    return parts


def _chosen(part: object, size: int) -> list[int]:
    """The sizes that one part of an index leaves of a dimension."""
    if isinstance(part, slice):
        try:
            return [len(range(*part.indices(size)))]
        except (TypeError, ValueError, OverflowError):
            raise Stuck("a slice that the text does not show") from None
    if isinstance(part, Tensor):
        if _is_bool_mask(part):
            raise Stuck("a selection whose size depends on numbers")
        return list(part.shape)
    if isinstance(part, (list, range)):
        return [len(part)]
    if not isinstance(part, int) or abs(part) > MAX_NUMBER:
        raise Stuck("an index that the text does not show")
    if not -size <= part < size:
        raise Stuck(f"item {part} of {size}")
    return []


def _is_bool_mask(part: object) -> bool:
    return isinstance(part, Tensor) and part.dtype == "bool"
