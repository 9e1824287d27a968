"""Operations with fewer dimensions in their result, and those that name dimensions: sums, einsum, einops, patches."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from analyzer.networks.arithmetic import each_size
from analyzer.networks.operations import number, operation, tensor
from analyzer.networks.shapes import dim_of, stack
from analyzer.networks.tape import Tape
from analyzer.networks.values import Stuck, Tensor


@operation("sum", "mean", "prod", "std", "var", "norm", "logsumexp", "amax", "amin", "any", "all", "nansum")
def reduced(tape: Tape, given: object, dim: object = None, keepdim: object = False, **keywords: object) -> Tensor:
    """Fewer dimensions."""
    x = tensor(given)
    if isinstance(dim, (int, float)) and "dim" in keywords:  # norm(p, dim)
        dim = keywords["dim"]
    keepdim = keywords.get("keepdims", keepdim)
    axis = keywords.get("axis", dim)
    if axis is None:
        return tape.result((), [x], x.dtype)
    if not isinstance(axis, (int, list, tuple)):
        axis = -1
    dims = {dim_of(each, len(x.shape)) for each in (axis if isinstance(axis, (list, tuple)) else (axis,))}
    if keepdim is True:
        shape = [1 if at in dims else size for at, size in enumerate(x.shape)]
    else:
        shape = [size for at, size in enumerate(x.shape) if at not in dims]
    return tape.result(shape, [x], x.dtype)


@operation("max", "min", "topk", "sort", "kthvalue", "median", "cummax")
def selected(tape: Tape, given: object, *args: object, **keywords: object) -> object:
    """Values and their positions along a dimension; the greatest of all without one."""
    x = tensor(given)
    if args and isinstance(args[0], Tensor):
        return tape.result(x.shape, [x, args[0]])
    if not args and not keywords:
        return tape.result((), [x], x.dtype)
    dim = dim_of(keywords.get("dim", args[0] if args else -1), len(x.shape))
    shape = [size for at, size in enumerate(x.shape) if at != dim]
    if (args[1] if len(args) > 1 else keywords.get("keepdim")) is True:
        shape.insert(dim, 1)
    return (tape.result(shape, [x], x.dtype), Tensor(tuple(shape), "int"))


@operation("argmax", "argmin", "argsort", "multinomial")
def positions(tape: Tape, given: object, dim: object = None, keepdim: object = False, **_: object) -> Tensor:
    """Positions carry no gradient."""
    x = tensor(given)
    if dim is None:
        return Tensor((), "int")
    at = dim_of(dim, len(x.shape))
    return Tensor(tuple(size for index, size in enumerate(x.shape) if index != at), "int")


@operation("einsum")
def einsum(tape: Tape, equation: object, *operands: object) -> Tensor:
    """Keeps both sides that the other's gradient needs."""
    if not isinstance(equation, str) or "->" not in equation:
        raise Stuck("an einsum that the text does not show")
    given: Sequence[object] = operands
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        given = operands[0]
    left, right = equation.replace(" ", "").split("->")
    parts = [tensor(each) for each in given]
    names = left.split(",")
    if len(names) != len(parts):
        raise Stuck("an einsum of another number of operands")
    sizes: dict[str, int] = {}
    rest: tuple[int, ...] = ()
    for letters, part in zip(names, parts, strict=True):
        rest = _named(letters, part, sizes) or rest
    for index, part in enumerate(parts):
        others = [each for at, each in enumerate(parts) if at != index]
        if any(each.needs_grad for each in others):
            tape.operand(part, has_weight=any(each.is_parameter for each in others))
    made: list[int] = []
    for letter in re.findall(r"\.\.\.|\w", right):
        made += rest if letter == "..." else [sizes.get(letter, 1)]
    return tape.result(made, parts, is_full=False)


def _named(letters: str, part: Tensor, sizes: dict[str, int]) -> tuple[int, ...]:
    """Give the dimensions of an operand their letters; returns what `...` stands for."""
    plain, shape = letters.replace("...", ""), part.shape
    rest: tuple[int, ...] = ()
    if "..." in letters and len(plain) <= len(shape):
        begin, extra = letters.index("..."), len(shape) - len(plain)
        rest, shape = shape[begin : begin + extra], (*shape[:begin], *shape[begin + extra :])
    if len(plain) != len(shape):
        raise Stuck(f"{list(part.shape)} as `{letters}`")
    for letter, size in zip(plain, shape, strict=True):
        if sizes.setdefault(letter, size) != size and 1 not in (size, sizes[letter]):
            raise Stuck(f"`{letter}` is {sizes[letter]} and {size}")
        sizes[letter] = max(sizes[letter], size)
    return rest


# --- einops ---------------------------------------------------------------------------------------------------------


@operation("rearrange", "reduce", "einops_repeat")
def rearrange(tape: Tape, given: object, pattern: object, *_: object, **sizes: object) -> Tensor:
    """einops: the same numbers in another order, some repeated, some reduced away."""
    x = stack(tape, given) if isinstance(given, (list, tuple)) else tensor(given)
    if not isinstance(pattern, str) or pattern.count("->") != 1:
        raise Stuck("a pattern that the text does not show")
    left, right = (_axes(side) for side in pattern.split("->"))
    known = {name: number(size) for name, size in sizes.items() if isinstance(size, int)}
    rest = _solve(left, x.shape, known)
    shape: list[int] = []
    for group in right:
        if group == ["..."]:
            shape += rest
            continue
        total = 1
        for name in group:
            if name not in known and not name.isdigit():
                raise Stuck(f"`{name}` is not known")
            total *= int(name) if name.isdigit() else known[name]
        shape.append(total)
    made = math.prod(shape)
    return tape.view(x, shape) if made == x.elements else tape.result(shape, [x], x.dtype)


def _axes(side: str) -> list[list[str]]:
    return [
        token[1:-1].split() if token.startswith("(") else [token]
        for token in re.findall(r"\([^)]*\)|\.\.\.|[\w]+", side)
    ]


def _solve(left: list[list[str]], shape: tuple[int, ...], known: dict[str, int]) -> list[int]:
    """Fill in `known` from the sizes on the left; what `...` stands for is returned."""
    extra = len(shape) - len(left) + 1
    rest: list[int] = []
    at = 0
    for group in left:
        if group == ["..."]:
            rest, at = list(shape[at : at + extra]), at + extra
            continue
        if at >= len(shape):
            raise Stuck(f"{list(shape)} has too few dimensions")
        size, at = shape[at], at + 1
        unknown = [name for name in group if name not in known and not name.isdigit()]
        given = math.prod(int(name) if name.isdigit() else known[name] for name in group if name not in unknown)
        if len(unknown) > 1 or not given or size % given or (not unknown and given != size):
            raise Stuck(f"{size} as `{' '.join(group)}`")
        if unknown:
            known[unknown[0]] = size // given
    if at != len(shape):
        raise Stuck(f"{list(shape)} has too many dimensions")
    return rest


@operation("unfold")
def unfold(tape: Tape, given: object, kernel_size: object, *args: object, **keywords: object) -> Tensor:
    """Patches as columns."""
    x = tensor(given)
    if len(x.shape) != 4:
        raise Stuck("patches of something that is no image")
    names = ("dilation", "padding", "stride")
    said = {**dict(zip(names, args, strict=False)), **keywords}
    kernel, stride = each_size(kernel_size, 2), each_size(said.get("stride", 1), 2)
    pads = each_size(said.get("padding", 0), 2)
    counts = [(x.shape[2 + i] + 2 * pads[i] - kernel[i]) // stride[i] + 1 for i in (0, 1)]
    return tape.result((x.shape[0], x.shape[1] * math.prod(kernel), math.prod(counts)), [x])


@operation("meshgrid")
def meshgrid(tape: Tape, *given: object, **_: object) -> tuple[Tensor, ...]:
    """Coordinates."""
    parts = [tensor(each) for each in (given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given)]
    shape = tuple(part.elements for part in parts)
    return tuple(Tensor(shape, part.dtype, is_full=True) for part in parts)
