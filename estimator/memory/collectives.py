"""Buffers of data-parallel training: gradient buckets, gathered parameters, and their gradients in flight."""

from __future__ import annotations

from estimator.memory.setup import Setup
from estimator.report import Term

_BUCKET_ELEMENTS = 5e8  # DeepSpeed's default reduce_bucket_size and allgather_bucket_size


def gathered(setup: Setup) -> Term:
    """Whole units of a sharded model: the one at work, the one being fetched, and the root that stays gathered."""
    if not setup.is_gathered:
        return Term("gathered parameters", 0, 0, "parameters are not sharded", "")
    per_param = setup.quantized_bytes or setup.compute_bytes
    layer = setup.facts.layer_params / (setup.tp) * per_param
    root = setup.embedding_params * setup.compute_bytes
    formula = f"2 layers of {setup.facts.layer_params:,} parameters and the root unit"
    return Term(
        "gathered parameters", int(2 * layer + root), int(layer), formula, "FSDP: one prefetched unit; root unit kept"
    )


def unsharded_weights(setup: Setup) -> Term:
    """The whole model beside this rank's shard, where it is put on the device before it is sharded."""
    name = "model before sharding"
    if not setup.is_gathered or not setup.loads_whole:
        return Term(name, 0, 0, "loaded in shards, or in host memory", "")
    total = setup.block_params * (setup.quantized_bytes or setup.weight_bytes)
    total += setup.embedding_params * setup.weight_bytes
    return Term(name, int(total), 0, "all parameters of this device", "FSDP(module) shards what is there, unit by unit")


def unsharded_gradients(setup: Setup, *, is_last: bool) -> Term:
    """Gradients of the unit in backward before they are reduced and scattered; `is_last`: of the root unit.

    Embedding and head are one unit, the root. The head's gradient comes first and waits, whole, for the embedding's,
    which comes last; then both are copied into the input of one reduce-scatter.
    """
    if setup.is_frozen or setup.shards == 1 or setup.sharding not in ("zero2", "zero3", "fsdp"):
        return Term("gradients in flight", 0, 0, "no reduce-scatter", "")
    layer = setup.facts.layer_params / setup.tp * setup.compute_bytes
    if setup.is_gathered:
        root = setup.embedding_params * setup.compute_bytes
        head = min(setup.facts.vocab * setup.facts.hidden / setup.tp * setup.compute_bytes, root)
        total = 2 * max(layer, root) if is_last else 2 * layer + head
        return Term("gradients in flight", int(total), 0, "two units; the root unit is the last", "FSDP units")
    bucket = min(_BUCKET_ELEMENTS, setup.device_params) * setup.compute_bytes
    return Term("gradients in flight", int(2 * bucket), 0, "two buckets", "DeepSpeed reduce_bucket_size")


def buckets(setup: Setup) -> Term:
    """DistributedDataParallel keeps a second copy of all gradients unless gradients are views of its buckets."""
    if setup.sharding == "ddp" and setup.has_bucket_views:
        return Term(
            "gradient buckets", 0, 0, "gradients are views of the buckets", "torch DDP, gradient_as_bucket_view"
        )
    if setup.replicas == 1 or setup.sharding not in ("ddp", "zero1") or not setup.is_training:
        return Term("gradient buckets", 0, 0, "no all-reduce buckets", "")
    total = setup.trainable_params * setup.trained_bytes
    if setup.sharding == "zero1":
        total = min(_BUCKET_ELEMENTS, setup.trainable_params) * setup.compute_bytes
    return Term(
        "gradient buckets", int(total), 0, "one copy of the gradients", "torch DDP, gradient_as_bucket_view=False"
    )
