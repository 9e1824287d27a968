"""Two training steps of a real model on tensors without data: what is alive at the worst moment.

`FakeTensorMode` gives every tensor its shape and dtype and no memory, `MemTracker` counts the storages that are alive.
Both are torch's own. Kernels are those of the CPU: their workspaces are not those of a GPU, what autograd keeps is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

STEPS = 2
"""The first allocates the optimizer's state, the second runs beside it."""
PRECISIONS = {
    "fp32": ("fp32", ""), "amp-bf16": ("fp32", "bf16"), "amp-fp16": ("fp32", "fp16"), "pure-bf16": ("bf16", ""),
    "pure-fp16": ("fp16", ""),
}  # fmt: skip
"""What weights are held in, and the autocast type where that is not what is computed in."""
OPTIMIZERS: dict[str, tuple[str, dict[str, float]]] = {
    "adamw": ("AdamW", {}), "sgd": ("SGD", {"lr": 0.1}), "sgd-momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "adagrad": ("Adagrad", {}), "rmsprop": ("RMSprop", {}), "adafactor": ("Adafactor", {}),
}  # fmt: skip
"""Those that can be traced: the class of `torch.optim` and its settings."""
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
# Autocast on CUDA computes these in fp32 (torch docs, "CUDA Ops that can autocast to float32"); on a CPU it does not.
_IN_FP32 = (
    "softmax", "log_softmax", "layer_norm", "group_norm", "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "kl_div",
    "binary_cross_entropy_with_logits", "cosine_similarity", "normalize", "softplus",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Traced:
    """Bytes of one device. `at_peak` are those of the worst moment by kind (weights, gradients, …); `must` is what is
    there in every implementation: weights, gradients and `state`, what the optimizer keeps between steps."""

    params: int
    trained: int
    peak: int
    must: int
    state: int
    at_peak: tuple[tuple[str, int], ...]
    moments: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What to trace. `build` makes the model, or the model and an example input; `example` makes inputs otherwise.
    Inputs are the arguments of ``forward``, or a mapping of named ones."""

    build: Callable[[], Any]
    example: Callable[[Any], Sequence[Any] | Mapping[str, Any]]
    optimizer: str
    precision: str
    is_training: bool = True


def trace(request: Request) -> Traced:
    """Two steps, or one forward pass where nothing is trained; no memory is allocated for data.

    Raises whatever the model raises.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    with warnings.catch_warnings(), FakeTensorMode(allow_non_fake_inputs=True):
        warnings.simplefilter("ignore")  # of fake tensors and of the model's own
        model, inputs = _built(request)
        weights, mixed = PRECISIONS[request.precision]
        if weights != "fp32":
            model = model.to(getattr(torch, _DTYPES[weights]))
            inputs = inputs.mapped(lambda each: each.to(getattr(torch, _DTYPES[weights])) if _is_float(each) else each)
        model.train(request.is_training)
        trained = [each for each in model.parameters() if each.requires_grad]
        optimizer = _optimizer(request.optimizer, trained) if request.is_training and trained else None
        tracker = MemTracker()
        tracker.track_external(model, *([optimizer] if optimizer else []), *inputs.tensors())
        _spare(tracker, model)
        moments: dict[str, int] = {"model load": _total(tracker)}
        with tracker:
            for _ in range(STEPS if optimizer else 1):
                _step(model, inputs, optimizer, mixed, lambda name: moments.__setitem__(name, _total(tracker)))
                tracker.reset_mod_stats()  # of modules; the peak stays
        peak = _by_kind(tracker.get_tracker_snapshot("peak"))
    params, state = sum(each.numel() for each in model.parameters()), _state_bytes(optimizer)
    own = sum(each.numel() * each.element_size() for each in model.parameters())
    grads = sum(each.numel() * each.element_size() for each in trained) if optimizer else 0
    return Traced(
        params=params, trained=sum(each.numel() for each in trained) if optimizer else 0, peak=peak.pop("Total"),
        must=own + grads + state, state=state, at_peak=tuple((name, size) for name, size in peak.items() if size),
        moments=tuple(moments.items()),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The arguments of ``forward``."""

    plain: tuple[Any, ...]
    named: Mapping[str, Any]

    def mapped(self, change: Callable[[Any], Any]) -> _Inputs:
        return _Inputs(tuple(map(change, self.plain)), {name: change(value) for name, value in self.named.items()})

    def tensors(self) -> list[Any]:
        import torch

        return [each for each in (*self.plain, *self.named.values()) if isinstance(each, torch.Tensor)]


def _built(request: Request) -> tuple[Any, _Inputs]:
    import torch

    made = request.build()
    model, example = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"what it returns is a {type(model).__name__} and no torch.nn.Module")
    if example is None:
        example = request.example(model)
    if isinstance(example, Mapping):
        return model, _Inputs((), dict(example))
    return model, _Inputs(tuple(example) if isinstance(example, (list, tuple)) else (example,), {})


class _NoHook:
    """Stands for the hooks of a parameter that has no gradient."""

    def remove(self) -> None:
        """Nothing was hooked."""


def _spare(tracker: Any, model: Any) -> None:
    """`MemTracker` hooks the gradient of every parameter that it has not hooked, also of frozen ones, which raises."""
    hooked: Any = getattr(tracker, "_param_to_grad_hook_handles", {})
    for each in model.parameters():
        if not each.requires_grad:
            hooked[each] = (_NoHook(), _NoHook())


def _step(model: Any, inputs: _Inputs, optimizer: Any, mixed: str, note: Callable[[str], None]) -> None:
    import torch

    if optimizer is None:
        with torch.no_grad(), _autocast(mixed):
            model(*inputs.plain, **inputs.named)
            note("forward")
        return
    with _autocast(mixed):
        loss = _loss(model(*inputs.plain, **inputs.named))
    note("forward end")
    loss.backward()
    note("backward end")
    with numbers():
        optimizer.step()
    note("optimizer step")
    optimizer.zero_grad(set_to_none=True)


@contextmanager
def numbers() -> Iterator[None]:
    """Optimizers that ask a tensor for its number (Adafactor) get one: a tensor without data has none, and no size
    depends on it."""
    from torch.overrides import TorchFunctionMode

    class Answering(TorchFunctionMode):  # type: ignore[misc] # torch is not installed where types are checked
        def __torch_function__(
            self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            return 1.0 if getattr(func, "__name__", "") == "item" else func(*args, **(kwargs or {}))

    with Answering():
        yield


@contextmanager
def _autocast(mixed: str) -> Iterator[None]:
    """A GPU's autocast on a CPU: what CUDA keeps in fp32 is computed in fp32."""
    if not mixed:
        yield
        return
    import torch
    from torch.overrides import TorchFunctionMode

    class Widened(TorchFunctionMode):  # type: ignore[misc] # torch is not installed where types are checked
        def __torch_function__(
            self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            if getattr(func, "__name__", "") not in _IN_FP32:
                return func(*args, **(kwargs or {}))
            with torch.autocast("cpu", enabled=False):
                return func(*(each.float() if _is_float(each) else each for each in args), **(kwargs or {}))

    with torch.autocast("cpu", getattr(torch, _DTYPES[mixed])), Widened():
        yield


def _loss(output: Any) -> Any:
    """The output's own loss, else the sum of what it returns."""
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if own is not None:
        return own
    found = [each.float().mean() for each in _floats(output)]
    if not found:
        raise ValueError("the model returns no tensor of numbers")
    return sum(found[1:], found[0])


def _floats(output: Any) -> Iterator[Any]:
    if isinstance(output, Mapping):
        output = list(output.values())
    for each in output if isinstance(output, (list, tuple)) else [output]:
        if _is_float(each):
            yield each
        elif isinstance(each, (list, tuple, Mapping)):
            yield from _floats(each)


def _is_float(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _optimizer(name: str, params: list[Any]) -> Any:
    import torch

    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer {name!r} cannot be traced; one of {', '.join(OPTIMIZERS)}")
    kind, settings = OPTIMIZERS[name]
    return getattr(torch.optim, kind)(params, **settings)


def _state_bytes(optimizer: Any) -> int:
    state = optimizer.state.values() if optimizer is not None else ()
    return sum(
        each.numel() * each.element_size() for kept in state for each in kept.values() if hasattr(each, "element_size")
    )


def _total(tracker: Any) -> int:
    return sum(int(kinds["Total"]) for kinds in tracker.get_tracker_snapshot("current").values())


_NAMES = {
    "PARAM": "weights", "BUFFER": "buffers", "GRAD": "gradients", "ACT": "saved activations",
    "TEMP": "temporaries of backward", "OPT": "optimizer state and temporaries", "OTH": "inputs and others",
}  # fmt: skip


def _by_kind(snapshot: Mapping[Any, Mapping[Any, int]]) -> dict[str, int]:
    """Bytes by kind over all devices; a model may leave small tensors on another."""
    found: dict[str, int] = {"Total": 0}
    for kinds in snapshot.values():
        for kind, size in kinds.items():
            # torch's kinds are texts as well (`_MemRefType.PARAM == "Parameter"`); the total is a text and nothing else
            name = _NAMES.get(kind.name, kind.name.lower()) if isinstance(kind, Enum) else str(kind)
            found[name] = found.get(name, 0) + int(size)
    return found
