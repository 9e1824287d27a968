"""Bytes that are alive while a real model trains on tensors without data, and what a GPU would do differently.

`FakeTensorMode` gives every tensor shape and dtype and no memory; `Live` adds up the storages that exist. Kernels are a
CPU's, so `Cuda` stands in for three things that a GPU does otherwise: its autocast keeps softmax, norms, powers and
losses in fp32 (torch docs, "CUDA Ops that can autocast to float32"), its dropout keeps a byte mask, and its allocator
rounds to 512 bytes.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from estimator.calibration.caching import Caching

_ROUND = 512
_IN_FP32 = frozenset(
    {
        "softmax", "log_softmax", "layer_norm", "group_norm", "rms_norm", "cross_entropy", "nll_loss", "mse_loss",
        "l1_loss", "kl_div", "cosine_similarity", "binary_cross_entropy_with_logits", "softplus", "pow", "__pow__",
        "__rpow__", "exp", "log", "rsqrt", "sum", "prod", "norm", "cumsum", "logsumexp",
    }
)  # fmt: skip


class Live(TorchDispatchMode):  # type: ignore[misc] # torch is not installed where types are checked
    """Counts storages: `now` and `peak`, in bytes, and what the allocator of a GPU would have reserved for them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.cache = Caching()
        self._known: dict[int, Any] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs the operation and counts what it made."""
        result = func(*args, **(kwargs or {}))
        for each in tree_leaves(result):
            if isinstance(each, torch.Tensor):
                self._count(each.untyped_storage())
        return result

    def _count(self, storage: Any) -> None:
        key = storage._cdata
        if key in self._known:
            return
        size = -(-storage.nbytes() // _ROUND) * _ROUND

        block = self.cache.take(size)  # rounds to what a tensor of nothing needs as well

        def freed(_: Any) -> None:
            self.cache.give(block)
            self.now -= size
            self._known.pop(key, None)

        self._known[key] = weakref.ref(storage, freed)
        self.now += size
        self.peak = max(self.peak, self.now)


class Cuda(TorchFunctionMode):  # type: ignore[misc]
    """What a GPU's kernels and autocast do otherwise than a CPU's."""

    def __init__(self, *, is_mixed: bool) -> None:
        super().__init__()
        self._is_mixed = is_mixed

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Reroutes dropout and what autocast widens."""
        named, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if name == "dropout":
            return _dropout(*args, **named)
        if not (self._is_mixed and name in _IN_FP32):
            return func(*args, **named)
        with torch.autocast("cpu", enabled=False):
            return func(*map(_widened, args), **{key: _widened(value) for key, value in named.items()})


def _dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:  # noqa: A002 # torch's
    return torch.native_dropout(input, p, True)[0] if training and p > 0 else input


def _widened(value: Any) -> Any:
    is_narrow = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float32
    return value.float() if is_narrow else value
