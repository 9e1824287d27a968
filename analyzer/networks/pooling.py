"""Operations on maps of pixels: pooling, resizing, padding, shuffling."""

from __future__ import annotations

from analyzer.networks.arithmetic import each_size, positive
from analyzer.networks.operations import number, numbers, operation, tensor
from analyzer.networks.tape import Tape
from analyzer.networks.values import Stuck, Tensor


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
    kernels, pads, dilations = each_size(kernel, dims), each_size(padding, dims), each_size(dilation, dims)
    strides = kernels if stride in (None, [], ()) else each_size(stride, dims)
    sizes: list[int] = []
    for index in range(dims):
        room = x.shape[index - dims] + 2 * pads[index] - dilations[index] * (kernels[index] - 1) - 1
        sizes.append((-(-room // strides[index]) if ceil_mode is True else room // strides[index]) + 1)
    return tape.result((*x.shape[:-dims], *positive(sizes)), [x])


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
        sizes = each_size(size, dims)
    elif scale_factor is not None:
        factors = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * dims
        if not all(isinstance(each, (int, float)) for each in factors):
            raise Stuck("a scale that the text does not show")
        sizes = tuple(int(x.shape[index - dims] * factor) for index, factor in enumerate(factors))
    else:
        raise Stuck("neither size nor scale")
    return tape.result((*x.shape[:-dims], *positive(sizes)), [x])


@operation("pad")
def pad(tape: Tape, given: object, widths: object, *_: object, **__: object) -> Tensor:
    """Keeps nothing."""
    x = tensor(given)
    amounts = numbers(widths if isinstance(widths, (list, tuple)) else [widths])
    shape = list(x.shape)
    for index in range(0, len(amounts) - 1, 2):
        shape[-1 - index // 2] += amounts[index] + amounts[index + 1]
    return tape.result(positive(shape), [x], x.dtype)


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
