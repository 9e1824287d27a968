"""Weights, gradients and optimizer state: bytes per parameter times parameters, less what other ranks hold."""

from __future__ import annotations

from estimator.memory.setup import ADAPTERS, Setup
from estimator.report import Term

_EIGHT_BIT = 1 + 4 / 256  # one fp32 scale per block of 256 (bitsandbytes, torchao)
STATE_BYTES = {
    "adamw": ("dtype", 2), "adagrad": ("dtype", 1), "rmsprop": ("dtype", 1), "sgd": ("dtype", 0),
    "sgd-momentum": ("dtype", 1), "lion": ("dtype", 1), "muon": ("dtype", 1.15), "adafactor": ("bytes", 0.02),
    "adamw-paged": ("bytes", 8),
    "adamw-8bit": ("bytes", 2 * _EIGHT_BIT), "adamw-8bit-paged": ("bytes", 2 * _EIGHT_BIT),
    "adamw-4bit": ("bytes", 1 + 8 / 128), "adamw-fp8": ("bytes", 2 * _EIGHT_BIT), "lion-8bit": ("bytes", _EIGHT_BIT),
    "galore": ("dtype", 0.5), "lomo": ("bytes", 0),
}  # fmt: skip
"""State tensors per parameter, in the parameter's dtype ("dtype") or in bytes. torch.optim keeps state in the dtype
of the parameter (torch docs); muon adds Adam for embeddings; galore keeps low-rank Adam state."""
_LOW_MEMORY_OPTIMIZERS = frozenset(
    {
        "adafactor",
        "adamw-paged",
        "adamw-8bit",
        "adamw-8bit-paged",
        "adamw-4bit",
        "adamw-fp8",
        "lion-8bit",
        "lomo",
        "sgd",
        "galore",
    }
)


def state_sharding(setup: Setup) -> int:
    """Over how many ranks optimizer state is spread."""
    return setup.shards if setup.sharding in ("zero1", "zero2", "zero3", "fsdp") else 1


def gradient_sharding(setup: Setup) -> int:
    """Over how many ranks gradients are spread."""
    return setup.shards if setup.sharding in ("zero2", "zero3", "fsdp") else 1


def weight_sharding(setup: Setup) -> int:
    """Over how many ranks weights are spread."""
    return setup.shards if setup.is_gathered else 1


def weights(setup: Setup) -> Term:
    """The model's parameters at rest."""
    per_block = setup.quantized_bytes or setup.weight_bytes
    total = setup.block_params * per_block + setup.embedding_params * setup.weight_bytes
    total /= weight_sharding(setup)
    if setup.method in ADAPTERS and setup.is_training:
        total += setup.trainable_params * setup.trained_bytes / weight_sharding(setup)
    total += 2 * setup.companions
    formula = (
        f"{setup.block_params:,} in layers x {per_block:g} B + {setup.embedding_params:,} x {setup.weight_bytes:g} B"
    )
    if weight_sharding(setup) > 1:
        formula += f", over {weight_sharding(setup)} ranks"
    if setup.offload in ("params", "both"):
        streamed = 2 * setup.facts.layer_params * setup.compute_bytes
        kept = min(total, streamed + setup.embedding_params * setup.compute_bytes)
        return Term("weights", int(kept), 0, "two layers at a time; the rest in host memory", "offload")
    return Term("weights", int(total), int(total), formula, "parameter count")


def gradient_bytes(setup: Setup) -> float:
    """Bytes of all gradients on one device once they are reduced."""
    if setup.steps_in_backward or setup.optimizer == "lomo":
        return 0.0
    return setup.trainable_params * setup.trained_bytes / gradient_sharding(setup)


def accumulating_gradients(setup: Setup) -> Term:
    """Gradients while micro-batches add to them. Where FSDP does not reduce in between (``no_sync``), every rank holds
    them whole, and a unit that mixes adapters with frozen weights has one gradient for all of it."""
    reduced = gradients(setup)
    if not setup.whole_gradients:
        return reduced
    params = setup.trainable_params if setup.method == "full" else setup.block_params
    total, formula = int(params * setup.compute_bytes), f"{params:,} in trained units x {setup.compute_bytes} B, whole"
    source = "torch FSDP: no_sync accumulates full gradients; one per flat parameter"
    return Term("gradients", total, reduced.floor_bytes, formula, source)  # what is reduced must be there in any case


def gradients(setup: Setup) -> Term:
    """One gradient per trainable parameter, in the parameter's dtype."""
    total = int(gradient_bytes(setup))
    formula = f"{setup.trainable_params:,} trainable x {setup.trained_bytes:g} B"
    if gradient_sharding(setup) > 1:
        formula += f", over {gradient_sharding(setup)} ranks"
    is_moved = setup.offload in ("optimizer", "both")  # ZeRO-Offload moves them to the host as they appear
    return Term(
        "gradients", total, 0 if is_moved else total, formula, "torch autograd: .grad has the parameter's dtype"
    )


def tied_gradient(setup: Setup) -> Term:
    """A matrix that is embedding and head gets two gradients: autograd holds the head's, the first of the backward
    pass, until the embedding's, the last, is there in full; then it adds them in place (InputBuffer::accumulate)."""
    if not setup.facts.is_tied or setup.unties or setup.is_frozen or setup.is_gathered or not setup.facts.has_head:
        return Term("second gradient of the tied embedding", 0, 0, "embedding and head are two matrices", "")
    total = int(setup.embedding_params * setup.weight_bytes)
    formula = f"{setup.embedding_params:,} x {setup.weight_bytes:g} B"
    return Term("second gradient of the tied embedding", total, 0, formula, "torch autograd InputBuffer")


def optimizer_state(setup: Setup) -> Term:
    """What the optimizer keeps between steps."""
    per_param = state_bytes_per_param(setup)
    total = int(setup.state_params * per_param / state_sharding(setup))
    formula = f"{setup.state_params:,} trainable x {per_param:.3g} B ({setup.optimizer})"
    if state_sharding(setup) > 1:
        formula += f", over {state_sharding(setup)} ranks"
    if setup.offload in ("optimizer", "both"):
        return Term("optimizer state", 0, 0, "in host memory", "offload")
    floor = 0 if setup.optimizer.endswith("paged") else total
    return Term("optimizer state", total, floor, formula, "torch.optim, bitsandbytes and torchao state tensors")


def state_bytes_per_param(setup: Setup) -> float:
    """Bytes of optimizer state (and fp32 master copy) per trainable parameter."""
    unit, count = STATE_BYTES[setup.optimizer]
    dtype = 4.0 if setup.has_master else setup.trained_bytes
    return (count * dtype if unit == "dtype" else count) + (4.0 if setup.has_master else 0.0)


def step_temporaries(setup: Setup) -> Term:
    """What the step allocates beside the state: foreach kernels make one list as large as the parameters."""
    if setup.offload in ("optimizer", "both") or setup.steps_in_backward:
        return Term("optimizer temporaries", 0, 0, "one tensor at a time", "optimizer loop")
    if setup.optimizer in _LOW_MEMORY_OPTIMIZERS:
        largest = setup.facts.vocab * setup.facts.hidden * setup.weight_bytes / (setup.tp * state_sharding(setup))
        total = 0 if setup.is_frozen else int(largest)
        return Term("optimizer temporaries", total, 0, "one copy of the largest parameter", "per-tensor optimizer loop")
    if setup.has_master:
        total = int(setup.trainable_params * 4 / state_sharding(setup))
        return Term("optimizer temporaries", total, 0, "fp32 gradients of this rank's partition", "DeepSpeed ZeRO step")
    if not setup.has_foreach_step:
        return Term("optimizer temporaries", 0, 0, "a fused step updates in place", "torch.optim fused kernels")
    total = int(setup.trainable_params * setup.trained_bytes / state_sharding(setup))
    return Term("optimizer temporaries", total, 0, "one list of the parameters' size", "torch.optim foreach kernels")
