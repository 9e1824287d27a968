"""What one network keeps, holds and multiplies while it is trained on tensors without data.

As `estimator.calibration.live`, for networks that read pictures, video or sound: beside what is alive it tells numbers
from masks and indices, the 16-bit copies of weights that autocast makes, gradients of parameters, and the operands of
trained matrices. `Gpu` also stands in for scaled_dot_product_attention: a CPU's falls back to maps where a bias is
trained, a GPU's memory-efficient kernel keeps queries, keys, values, bias, result and one number a row.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from estimator.calibration.live import Cuda

_ROUND = 512
_BIAS_MULTIPLE = 16  # columns that a bias of the memory-efficient kernel is padded to (torch, sdp_utils: pad_bias)
_MATRIX_OPS = frozenset({"convolution", "_convolution", "addmm", "mm", "linear", "baddbmm"})
_IN_16_BIT = frozenset({"interpolate", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "pad"})
"""What a CPU's autocast may widen and a GPU's leaves as it is."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Bytes, or elements where it says so, of one training step of one batch. `kept`: alive when forward ends, without
    `copies`, the 16-bit weights; of it `other` are masks and indices, `held` what is there at the peak above `kept`,
    and `late` the gradients of parameters then. `passing`: temporaries of forward above what it keeps."""

    kept: int
    other: int
    copies: int
    operands: int  # elements
    outputs: int  # elements
    working: int
    late: int
    passing: int
    widest: int  # elements


class Watch(TorchDispatchMode):  # type: ignore[misc] # torch is not installed where types are checked
    """Counts the storages that exist, by kind."""

    def __init__(self, weights: Sequence[Any], inputs: Sequence[Any]) -> None:
        super().__init__()
        self.weights = {each.untyped_storage()._cdata for each in weights}
        self.inputs = {each.untyped_storage()._cdata for each in inputs}
        self.known: dict[int, tuple[int, int, bool, Any]] = {}
        self.copies: set[int] = set()
        self.operands: dict[int, int] = {}
        self.now = self.top = self.grads = self.grads_at_top = self.widest = 0
        self.is_forward = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs the operation and counts what it made."""
        result = func(*args, **(kwargs or {}))
        made = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
        for each in made:
            self._count(each)
        if self.is_forward:
            name = func._schema.name.partition("::")[2]
            if name == "_to_copy" and args[0].untyped_storage()._cdata in self.weights:
                self.copies |= {each.untyped_storage()._cdata for each in made}
            if name in _MATRIX_OPS:
                self._note(args)
        return result

    def _note(self, args: Sequence[Any]) -> None:
        given = [each for each in args if isinstance(each, torch.Tensor)]
        keys = [each.untyped_storage()._cdata for each in given]
        if any(key in self.weights or key in self.copies for key in keys):
            for key, each in zip(keys, given, strict=True):
                if key not in self.weights and key not in self.copies:
                    self.operands[key] = min(each.numel(), each.untyped_storage().nbytes() // each.element_size())

    def _count(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.known or key in self.weights or key in self.inputs:
            return
        size = -(-storage.nbytes() // _ROUND) * _ROUND
        elements = storage.nbytes() // tensor.element_size()

        def freed(_: Any) -> None:
            self.now -= size
            self.known.pop(key, None)
            self.copies.discard(key)
            self.operands.pop(key, None)

        self.known[key] = (size, elements, tensor.is_floating_point(), weakref.ref(storage, freed))
        self.now += size
        if self.is_forward:
            self.widest = max(self.widest, elements)
        if self.now > self.top:
            self.top, self.grads_at_top = self.now, self.grads


class _Attention(torch.autograd.Function):  # type: ignore[misc]
    """The memory-efficient kernel, by what it keeps and makes."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, bias: Any) -> Any:
        """The result lies as a GPU's does: heads beside each other."""
        batch, heads, rows = query.shape[0], query.shape[1], query.shape[-2]
        made = query.new_empty(batch, rows, heads, value.shape[-1]).transpose(1, 2)
        ctx.save_for_backward(query, key, value, bias, made, query.new_empty(batch, heads, rows, dtype=torch.float32))
        return made

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Gradients of all that was given."""
        query, key, value, bias, _, _ = ctx.saved_tensors
        of_bias = None
        if bias is not None and ctx.needs_input_grad[3]:
            of_bias = query.new_empty(*query.shape[:2], query.shape[-2], key.shape[-2]).sum_to_size(bias.shape)
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), of_bias


def _attend(query: Any, key: Any, value: Any, attn_mask: Any = None, *_: Any, **__: Any) -> Any:
    leading = query.shape[:-3]
    query, key, value = (
        each.reshape(-1, *each.shape[-3:]) if each.dim() != 4 else each for each in (query, key, value)
    )
    bias = attn_mask
    if bias is not None:
        bias = bias.to(query.dtype) if bias.is_floating_point() else bias.new_zeros(bias.shape, dtype=query.dtype)
        if bias.shape[-1] % _BIAS_MULTIPLE and bias.shape[-1] > 1:
            extra = _BIAS_MULTIPLE - bias.shape[-1] % _BIAS_MULTIPLE
            bias = torch.nn.functional.pad(bias, (0, extra))[..., : bias.shape[-1]]
        while bias.dim() < 4:
            bias = bias[None]
    made = _Attention.apply(query, key, value, bias)
    return made.reshape(*leading, *made.shape[-3:]) if len(leading) != 1 else made


class Gpu(Cuda):
    """`Cuda`, and attention, batch norms and pools as a GPU does them."""

    def __init__(self, *, is_mixed: bool, half: Any = torch.float16) -> None:
        super().__init__(is_mixed=is_mixed)
        self._half = half

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Reroutes attention and what a CPU widens; the rest as its parent."""
        named, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if name in _ANSWERS:
            return _ANSWERS[name]
        if name == "scaled_dot_product_attention":
            if self._is_mixed:
                args = [each.to(self._half) if _is_number(each) else each for each in args]
                named = {key: each.to(self._half) if _is_number(each) else each for key, each in named.items()}
            return _attend(*args, **{key: each for key, each in named.items() if key in _NAMES})
        if self._is_mixed and name in _IN_16_BIT:
            with torch.autocast("cpu", enabled=False):
                return func(*args, **named)
        return super().__torch_function__(func, types, args, kwargs)


_ANSWERS: dict[str, object] = {"__bool__": False, "item": 1.0}  # to who asks a tensor without data what it holds
_NAMES = ("query", "key", "value", "attn_mask")


def _is_number(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def faked(model: Any, mode: FakeTensorMode) -> Any:
    """The model with tensors without data instead of its own."""
    done: dict[int, Any] = {}

    def fake(tensor: Any) -> Any:
        if id(tensor) not in done:
            plain = mode.from_tensor(tensor.detach())
            is_weight = isinstance(tensor, torch.nn.Parameter)
            done[id(tensor)] = torch.nn.Parameter(plain, tensor.requires_grad) if is_weight else plain
        return done[id(tensor)]

    for module in model.modules():
        for name, each in list(module._parameters.items()):
            if each is not None:
                module._parameters[name] = fake(each)
        for name, each in list(module._buffers.items()):
            if each is not None:
                module._buffers[name] = fake(each)
    return model


def step(
    model: Any, inputs: Any, loss: Any, *, is_mixed: bool, half: Any = torch.float16, has_backward: bool = True
) -> Seen:
    """One forward and backward of a model of fake tensors, inside its mode. `inputs` are arguments of the model,
    `loss` what makes a number of its result."""
    weights = [*model.parameters(), *model.buffers()]
    given = [each for each in tree_leaves(inputs) if isinstance(each, torch.Tensor)]
    with Watch(weights, given) as watch, _counted_gradients(model, watch):
        with ExitStack() as modes:
            modes.enter_context(Gpu(is_mixed=is_mixed, half=half))
            if is_mixed:
                modes.enter_context(torch.autocast("cpu", half))
            result = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
            floats = [each for each in tree_leaves(_plain(result)) if _is_number(each)]
            outputs = sum(each.numel() for each in floats)
            number = loss(floats)
            del result, floats
        watch.is_forward = False
        kinds = list(watch.known.items())
        copies = sum(size for key, (size, *_) in kinds if key in watch.copies)
        kept = sum(size for key, (size, *_) in kinds if key not in watch.copies)
        batch = sum(each.untyped_storage().nbytes() for each in given)  # which the loop holds
        other = sum(size for key, (size, _, is_float, _) in kinds if not is_float)
        operands, passing = sum(watch.operands.values()), watch.top - kept - copies
        if has_backward:
            with Gpu(is_mixed=is_mixed, half=half):
                number.backward()
        return Seen(
            kept=kept + batch, other=other, copies=copies, operands=operands, outputs=outputs, widest=watch.widest,
            working=watch.top - watch.grads_at_top - kept - copies, late=watch.grads_at_top, passing=max(passing, 0),
        )  # fmt: skip


def _plain(result: Any) -> Any:
    """A transformers output is a mapping of its own kind."""
    return list(result.values()) if isinstance(result, Mapping) else result


@contextmanager
def _counted_gradients(model: Any, watch: Watch) -> Iterator[None]:
    def grown(weight: Any) -> None:
        watch.grads += -(-weight.grad.untyped_storage().nbytes() // _ROUND) * _ROUND

    handles = [each.register_post_accumulate_grad_hook(grown) for each in model.parameters() if each.requires_grad]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for each in model.parameters():
            each.grad = None
