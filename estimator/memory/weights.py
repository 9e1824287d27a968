"""Weights, gradients and optimizer state: bytes per parameter times parameters, less what other ranks hold."""

from __future__ import annotations

from estimator.memory.setup import ADAPTERS, Setup
from estimator.report import Term

_EIGHT_BIT = 1 + 4 / 256  # one fp32 scale per block of 256 (bitsandbytes, torchao)
STATE_BYTES = {
    "adamw": ("dtype", 2), "adagrad": ("dtype", 1), "rmsprop": ("dtype", 1), "sgd": ("dtype", 0),
    "sgd-momentum": ("dtype", 1), "lion": ("dtype", 1), "muon": ("dtype", 1), "adafactor": ("bytes", 0),
    "adamw-paged": ("bytes", 8),
    "adamw-8bit": ("bytes", 2 * _EIGHT_BIT), "adamw-8bit-paged": ("bytes", 2 * _EIGHT_BIT),
    "adamw-4bit": ("bytes", 1 + 8 / 128), "adamw-fp8": ("bytes", 2 * _EIGHT_BIT), "lion-8bit": ("bytes", _EIGHT_BIT),
    "galore": ("dtype", 2), "lomo": ("bytes", 0),
}  # fmt: skip
"""State tensors per parameter, in the parameter's dtype ("dtype") or in bytes. torch.optim keeps state in the dtype
of the parameter (torch docs). What depends on a matrix's sides comes from `_by_shape`."""
LOW_MEMORY_OPTIMIZERS = frozenset(
    {
        "adafactor",
        "muon",
        "adamw-paged",
        "adamw-8bit",
        "adamw-8bit-paged",
        "adamw-4bit",
        "adamw-fp8",
        "lion",
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
    formula = _weights_formula(setup, per_block)
    if setup.offload in ("params", "both"):
        streamed = 2 * setup.facts.layer_params * setup.compute_bytes
        kept = min(total, streamed + setup.embedding_params * setup.compute_bytes)
        return Term(
            "weights", int(kept), 0, "two layers at a time and the embedding; the rest in host memory", "offload"
        )
    return Term("weights", int(total), int(total), formula, "parameter count")


def _weights_formula(setup: Setup, per_block: float) -> str:
    adapters = setup.trainable_params if setup.method in ADAPTERS and setup.is_training else 0
    parts = [
        (setup.block_params, "layers", per_block),
        (setup.embedding_params, "embedding and head" if setup.facts.has_head else "embedding", setup.weight_bytes),
        (adapters, "adapters", setup.trained_bytes),
    ]
    text = " + ".join(f"{count:,} in {name} x {each:.3g} B" for count, name, each in parts if count)
    if weight_sharding(setup) > 1:
        text += f", over {weight_sharding(setup)} ranks"
    return text + (f" + {setup.companions:,} in other models x 2 B" if setup.companions else "")


def autocast_copies(setup: Setup, *, is_cached: bool) -> Term:
    """16-bit copies of fp32 matmul weights. Autocast caches one per trained weight until its context ends, which is
    after the forward pass; the graph keeps those that backward reads, of checkpointed layers one layer's."""
    name, source = "autocast weight copies", "torch autocast_mode.cpp: cached_cast, and mm's saved operands"
    if not setup.is_amp or setup.is_gathered or setup.quantized_bytes is not None:
        return Term(name, 0, 0, "no fp32 weights are cast", source)
    head = " and head" if setup.head_params else ""
    blocks, formula = setup.block_params, f"layers{head}"
    if setup.checkpointing == "full" and not is_cached:
        blocks, formula = setup.facts.layer_params // setup.tp, f"one layer{head}"
    if setup.method == "freeze":
        blocks, formula = min(setup.trainable_params, blocks), "what is trained"
    return Term(name, 2 * (blocks + setup.head_params), 0, f"{formula}: {blocks + setup.head_params:,} x 2 B", source)


def largest_param(setup: Setup) -> float:
    """Numbers of the largest parameter on this device: the embedding, or a feed-forward matrix."""
    facts = setup.facts
    return max(facts.vocab, facts.ffn, facts.q_width) * facts.hidden / setup.tp


def gradient_bytes(setup: Setup) -> float:
    """Bytes of all gradients on one device once they are reduced; of the largest where the step is in backward."""
    if setup.steps_in_backward or setup.optimizer == "lomo":
        return min(largest_param(setup), setup.trainable_params) * setup.trained_bytes / gradient_sharding(setup)
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
    if setup.steps_in_backward or setup.optimizer == "lomo":
        is_moved, formula = True, "one parameter's at a time: the largest"
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
    """Bytes of optimizer state (and fp32 master copy) per trainable parameter, on average."""
    unit, count = STATE_BYTES[setup.optimizer]
    dtype = 4.0 if setup.has_master else setup.trained_bytes
    master = 4.0 if setup.has_master else 0.0
    if setup.optimizer in ("adafactor", "muon", "galore"):
        return _by_shape(setup, dtype) + master
    return (count * dtype if unit == "dtype" else count) + master


def _by_shape(setup: Setup, dtype: float) -> float:
    """Of optimizers that treat a matrix by its sides. Adafactor: one fp32 number per row and per column (Shazeer and
    Stern 2018, section 3). Muon: one momentum for matrices, Adam's two tensors for embedding and head (Jordan 2024).
    GaLore: of a matrix a projection of its shorter side to the rank and Adam's two tensors of the longer side by the
    rank; Adam for the rest (Zhao et al. 2024, section 4)."""
    if setup.is_frozen:  # adapters: A and B are matrices of one side `rank`
        return {"adafactor": 4.0 / setup.lora_rank, "muon": dtype, "galore": 2 * dtype}[setup.optimizer]
    shapes, facts, rank = matrices(setup), setup.facts, setup.lora_rank
    numbers = sum(count * rows * columns for rows, columns, count in shapes)
    rest = (facts.vocab, facts.hidden)
    if setup.optimizer == "adafactor":
        block = 4.0 * sum(count * (rows + columns) for rows, columns, count in shapes) / numbers
        table = 4.0 * sum(rest) / max(rest[0] * rest[1], 1)
    elif setup.optimizer == "muon":
        block, table = dtype, 2 * dtype
    else:
        low = sum(
            count * min(2 * rank * max(rows, columns) + rank * min(rows, columns), 2 * rows * columns)
            for rows, columns, count in shapes
        )
        block, table = dtype * low / numbers, 2 * dtype
    share = setup.embedding_params / max(setup.device_params, 1)
    return block * (1 - share) + table * share


def matrices(setup: Setup) -> list[tuple[int, int, int]]:
    """Inputs, outputs and number of the matrices of one layer."""
    facts = setup.facts
    width, experts = (facts.moe_ffn, facts.experts) if facts.experts and facts.moe_ffn else (facts.ffn, 1)
    return [
        (facts.hidden, facts.q_width, 2),
        (facts.hidden, facts.kv_width, 2),
        (facts.hidden, width, experts * (3 if facts.is_gated else 2)),
    ]


def step_temporaries(setup: Setup) -> Term:
    """What the step allocates beside the state: foreach kernels make one list as large as the parameters (Adagrad's, of
    roots and of scaled gradients, two)."""
    name = "optimizer temporaries"
    if setup.offload in ("optimizer", "both") or setup.steps_in_backward:
        return Term(name, 0, 0, "one tensor at a time", "optimizer loop")
    if setup.optimizer in LOW_MEMORY_OPTIMIZERS or setup.steps_alone:
        copies, formula = _largest_copies(setup)
        total = 0 if setup.is_frozen else int(largest_param(setup) * copies / state_sharding(setup))
        return Term(name, total, 0, formula, "per-tensor optimizer loop")
    if setup.has_master:
        total = int(setup.trainable_params * 4 / state_sharding(setup))
        return Term(name, total, 0, "fp32 gradients of this rank's partition", "DeepSpeed ZeRO step")
    if not setup.has_foreach_step:
        return Term(name, 0, 0, "a fused step updates in place", "torch.optim fused kernels")
    lists, formula = (2, "two lists of the parameters' size") if setup.optimizer == "adagrad" else (
        1, "one list of the parameters' size")  # fmt: skip
    if setup.objective == "ppo":  # one optimizer steps policy and critic (trl PPOTrainer)
        lists, formula = 2 * lists, f"{formula}, and the critic's"
    total = int(lists * setup.trainable_params * setup.trained_bytes / state_sharding(setup))
    return Term(name, total, 0, formula, "torch.optim foreach kernels")


def _largest_copies(setup: Setup) -> tuple[float, str]:
    """Bytes per number of the largest parameter while it is stepped. Adafactor squares an fp32 gradient and scales the
    update, and casts 16-bit gradients and weights before; Muon orthogonalises in bf16, in two tensors, beside its
    update; torch's Adam divides the root of its second moment into a new tensor; other loops make one."""
    if setup.optimizer == "adafactor":
        return (8.0, "two fp32 copies of the largest parameter") if setup.trained_bytes == 4 else (
            16.0, "four fp32 copies of the largest parameter")  # fmt: skip
    if setup.optimizer == "muon":
        return 4.0 + setup.trained_bytes, "update and two bf16 copies of the largest parameter"
    if setup.steps_alone and setup.optimizer.startswith("adam"):
        return 2 * setup.weight_bytes, "two copies of the largest parameter"
    return setup.weight_bytes, "one copy of the largest parameter"
