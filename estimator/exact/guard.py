"""`VRAMGuard`: stops a run at step 0 that cannot fit, warns of one that may not, and records what it really took."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from estimator.exact.examples import example
from estimator.exact.trace import Request, Traced, trace
from estimator.units import GIB

RECORDS = "PREFLIGHT_RECORDS"
"""The environment variable with the file that measured peaks are appended to, where no `record` is given."""


class VRAMExceeded(MemoryError):
    """What must be allocated is more than the device has: the run would end in an out-of-memory error."""


class VRAMWarning(UserWarning):
    """What is expected to be allocated is more than the device has: the run may not fit."""


@dataclass(frozen=True, slots=True)
class _Optimistic:
    """Bytes that every implementation allocates: weights, gradients, optimizer state."""

    weights: int
    gradients: int
    state: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.state


class VRAMGuard:
    """Around a training loop: ``with VRAMGuard(model, optimizer=optimizer, example_input=x): …``.

    `example_input` is a batch (or a tuple or a mapping of the arguments of ``forward``); without one `batch_size` with
    `seq_len` or `image_size` describes it, and without these only weights, gradients and optimizer state are looked at.
    `precision` is a word of the run config (``fp32``, ``amp-bf16``, …). `device_memory` in bytes replaces what CUDA
    reports. `record` is a file that one JSON line with the measured peak is appended to when the block ends.

    Raises `VRAMExceeded` on entering, only if even the optimistic bound exceeds the device; warns `VRAMWarning` if the
    traced step does. A model that cannot be traced is no error: the bound alone is checked.
    """

    def __init__(
        self, model: Any, *, optimizer: Any = None, example_input: Any = None, batch_size: int | None = None,
        seq_len: int | None = None, image_size: int | tuple[int, int] | None = None, precision: str = "fp32",
        device_memory: int | None = None, record: str | os.PathLike[str] | None = None,
    ) -> None:  # fmt: skip
        self.model = model
        self.optimizer = optimizer
        self.example_input = example_input
        self.batch_size = batch_size
        self.seq_len = seq_len
        self.image_size = (image_size, image_size) if isinstance(image_size, int) else image_size
        self.precision = precision
        self.record = record or os.environ.get(RECORDS)
        self.device_memory = device_memory
        self.traced: Traced | None = None
        self.measured: dict[str, Any] | None = None

    def __enter__(self) -> VRAMGuard:
        import torch

        has_device = torch.cuda.is_available()
        if self.device_memory is None and has_device:
            self.device_memory = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        if self.device_memory is not None:
            self._check(self.device_memory)
        if has_device:
            torch.cuda.reset_peak_memory_stats()
        return self

    def _check(self, capacity: int) -> None:
        bound = optimistic(self.model, self.optimizer)
        if bound.total > capacity:
            raise VRAMExceeded(
                f"weights {bound.weights / GIB:.2f} GiB, gradients {bound.gradients / GIB:.2f} GiB and optimizer state "
                f"{bound.state / GIB:.2f} GiB are {bound.total / GIB:.2f} GiB; the device has {capacity / GIB:.2f} GiB"
            )
        self.traced = self._trace()
        if self.traced is not None and self.traced.peak > capacity:
            warnings.warn(
                f"a step is expected to allocate {self.traced.peak / GIB:.2f} GiB; the device has "
                f"{capacity / GIB:.2f} GiB",
                VRAMWarning,
                stacklevel=3,
            )

    def _trace(self) -> Traced | None:
        """A step of a copy of the model without data; None where there is no input, or the model cannot be traced."""
        if self.example_input is None and self.batch_size is None:
            return None
        name = optimizer_word(self.optimizer) or "sgd"
        known = {"adam": "adamw", "nadam": "adamw", "radam": "adamw"}
        request = Request(lambda: _without_data(self.model), self._inputs, known.get(name, name), self.precision)
        try:
            return trace(request)
        except Exception as error:  # noqa: BLE001  a guard must not stop a run that it does not understand
            warnings.warn(f"the step could not be traced ({type(error).__name__}: {error})", VRAMWarning, stacklevel=4)
            return None

    def _inputs(self, model: Any) -> Sequence[Any] | Mapping[str, Any]:
        if self.example_input is None:
            assert self.batch_size is not None
            return example(model, batch=self.batch_size, length=self.seq_len, image=self.image_size)
        if isinstance(self.example_input, Mapping):
            return {name: _empty(each) for name, each in self.example_input.items()}
        return [_empty(each) for each in _listed(self.example_input)]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_back: TracebackType | None
    ) -> None:
        import torch

        if torch.cuda.is_available():
            self.measured = self._measured(kind)
            if self.record:
                self._write(Path(self.record), self.measured)

    def _write(self, path: Path, record: dict[str, Any]) -> None:
        """A file that cannot be written must not take the place of what the block itself raised."""
        try:
            with path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(record) + "\n")
        except OSError as error:
            warnings.warn(f"the measured peak was not written: {error}", VRAMWarning, stacklevel=3)

    def _measured(self, kind: type[BaseException] | None) -> dict[str, Any]:
        """One row as ``measured_peaks_public.jsonl`` has them, with both of the allocator's numbers."""
        import torch

        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        params = sum(each.numel() for each in self.model.parameters())
        batch, length, image = self._read()
        return {
            "id": f"guard-{int(time.time())}", "source": "VRAMGuard", "quality": "A",
            "model": name_of(self.model), "params_b": round(params / 1e9, 6),
            "task": "train" if self.optimizer is not None else None,
            "micro_batch": batch, "seq_len": length, "image_size": list(image) if image else None,
            "precision": self.precision, "optimizer": optimizer_word(self.optimizer),
            "gpu": properties.name, "gpu_mem_gib": round(properties.total_memory / GIB, 3),
            "measured_kind": "max_reserved", "measured_gib": round(torch.cuda.max_memory_reserved() / GIB, 4),
            "extra": {
                "max_allocated_gib": round(torch.cuda.max_memory_allocated() / GIB, 4), "torch": torch.__version__,
            },
            "oom": kind is not None and "OutOfMemory" in kind.__name__,
        }  # fmt: skip

    def _read(self) -> tuple[int | None, int | None, tuple[int, int] | None]:
        """Samples, tokens and pixels: as given, else as the example's first tensor has them."""
        given = self.example_input
        first: Any = (
            next(iter(given.values()), None) if isinstance(given, Mapping) else next(iter(_listed(given)), None)
        )
        shape = tuple(getattr(first, "shape", ()))
        is_text = len(shape) == 2 and not first.is_floating_point()
        image = (int(shape[2]), int(shape[3])) if len(shape) == 4 else None
        batch = int(shape[0]) if shape else None
        return (
            self.batch_size or batch,
            self.seq_len or (int(shape[1]) if is_text else None),
            self.image_size or image,
        )


def _listed(given: Any) -> Sequence[Any]:
    return given if isinstance(given, (list, tuple)) else [given]


def _empty(value: Any) -> Any:
    import torch

    return torch.empty(value.shape, dtype=value.dtype) if isinstance(value, torch.Tensor) else value


def name_of(model: Any) -> str:
    """The id that the model was loaded as, where it knows it (transformers); else its class."""
    loaded = getattr(getattr(model, "config", None), "_name_or_path", "")
    return loaded if isinstance(loaded, str) and loaded and not Path(loaded).is_absolute() else type(model).__name__


def optimizer_word(optimizer: Any) -> str | None:
    """The optimizer as the vocabulary has it."""
    if optimizer is None:
        return None
    name = type(optimizer).__name__.lower()
    has_momentum = any(group.get("momentum") for group in optimizer.param_groups)
    return "sgd-momentum" if name == "sgd" and has_momentum else name


_STATES = {"adam": 2, "adamw": 2, "nadam": 2, "radam": 2, "adamax": 2, "rmsprop": 1, "adagrad": 1, "lion": 1}
"""State tensors of the parameter's size that an optimizer keeps at least (torch.optim)."""


def optimistic(model: Any, optimizer: Any = None) -> _Optimistic:
    """The bytes that training this model with this optimizer allocates in every implementation."""
    weights = sum(each.numel() * each.element_size() for each in model.parameters())
    if optimizer is None:
        return _Optimistic(weights, 0, 0)
    gradients = sum(each.numel() * each.element_size() for each in model.parameters() if each.requires_grad)
    copies = _STATES.get(type(optimizer).__name__.lower(), 0)
    groups = optimizer.param_groups
    if type(optimizer).__name__ == "SGD":
        copies = int(any(group.get("momentum") for group in groups))
    held = sum(each.numel() * each.element_size() for group in groups for each in group["params"] if each.requires_grad)
    return _Optimistic(weights, gradients, copies * held)


def _without_data(model: Any) -> Any:
    """The same modules with parameters that have shapes alone; called under fake tensors."""
    import copy

    import torch

    memo: dict[int, Any] = {}
    for each in (*model.parameters(), *model.buffers()):
        empty = torch.empty(each.shape, dtype=each.dtype)
        is_parameter = isinstance(each, torch.nn.Parameter)
        memo[id(each)] = torch.nn.Parameter(empty, requires_grad=each.requires_grad) if is_parameter else empty
    return copy.deepcopy(model, memo)
