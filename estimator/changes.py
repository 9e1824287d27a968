"""What a person could change about a run: edits of its run config, with what each costs. `solver` ranks them.

Nothing that is already so is offered. A change has a *kind* (two of one kind replace each other) and an *effort*: how
far it moves the run from what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from analyzer.errors import InputError
from estimator import hardware
from estimator.models import pixels
from estimator.models.known import find_image_net
from estimator.runconfig import RunConfig
from estimator.sourced import Origin, Sourced, Unknown

_ORIGIN = Origin("suggestion")
SAME_TRAINING = frozenset(range(6))  # efforts: the same parameters, in the same precision, on the same hardware
MORE_HARDWARE = 6  # the same training on more GPUs; beyond, other parameters or other arithmetic
OTHER_ARITHMETIC = frozenset((7,))  # the same parameters, held less exactly
FEWER_PARAMETERS = frozenset((8, 9))  # adapters alone
_SHARDED_STATE = frozenset({"fsdp", "zero3"})
_A_BASE = {"bf16": "a bf16 base", "fp16": "an fp16 base"}
_PURE_16_BIT = frozenset({"pure-bf16", "pure-fp16", "bf16-master", "fp16-master"})


@dataclass(frozen=True, slots=True)
class Change:
    """One edit of a run config, in words, with what it costs."""

    kind: str
    effort: int
    words: str
    trade_off: str
    edit: Mapping[str, Any]

    def applied_to(self, run: RunConfig) -> RunConfig:
        """The run with the edit."""
        edits: dict[str, Any] = {name: Sourced(value, _ORIGIN) for name, value in self.edit.items()}
        return replace(run, **edits)


def value_of(sourced: Sourced[Any]) -> Any:
    """The value, or None where it is not known."""
    return None if isinstance(sourced.value, Unknown) else sourced.value


def changes(run: RunConfig) -> list[tuple[Change, ...]]:
    """What can be changed: per kind the variants, the gentlest first."""
    task = value_of(run.task) or ("generate" if run.max_context.is_known else "train")
    found = [*_training(run)] if task == "train" else [*_inference(run)]
    return [variants for variants in found if variants]


def _training(run: RunConfig) -> Iterator[tuple[Change, ...]]:
    if value_of(run.attention) == "eager":
        yield (Change("attention", 1, "use sdpa attention", "none on supported GPUs", {"attention": "sdpa"}),)
    yield tuple(_smaller_batches(run))
    if value_of(run.grad_checkpointing) != "full":
        yield (Change("checkpointing", 3, "turn on gradient checkpointing", "about 30 % more compute per step",
                      {"grad_checkpointing": "full"}),)  # fmt: skip
    yield from _optimizer(run)
    yield tuple(_sharding(run))
    yield from _precision(run)
    yield tuple(_adapters(run))


def _smaller_batches(run: RunConfig) -> Iterator[Change]:
    batch, accumulated = value_of(run.micro_batch), value_of(run.grad_accum) or 1
    if batch is None:
        return
    for divisor in range(2, batch + 1):
        if batch % divisor == 0:
            words = f"micro-batch {batch // divisor} with {accumulated * divisor} accumulation steps"
            edit = {"micro_batch": batch // divisor, "grad_accum": accumulated * divisor}
            yield Change("batch", 2, words, "same global batch; more, smaller steps", edit)
        if divisor > 4096:
            return


def _optimizer(run: RunConfig) -> Iterator[tuple[Change, ...]]:
    if (value_of(run.method) or "full") != "full" or value_of(run.quantization) is not None:
        return
    if value_of(run.optimizer) in (None, "adamw", "adagrad", "rmsprop"):
        yield (Change("optimizer", 4, "use 8-bit AdamW", "optimizer state in 8 bit; needs bitsandbytes or torchao",
                      {"optimizer": "adamw-8bit"}),)  # fmt: skip
    if (value_of(run.offload) or "none") == "none":
        yield (Change("offload", 5, "keep optimizer state in host memory", "slower steps; needs host memory",
                      {"offload": "optimizer"}),)  # fmt: skip


def _sharding(run: RunConfig) -> Iterator[Change]:
    per_node, nodes = value_of(run.num_gpus) or 1, value_of(run.nodes) or 1
    world, costs = per_node * nodes, "all-gathers in forward and backward"
    fsdp = {"sharding": "fsdp", "sharded_load": True}
    if value_of(run.sharding) not in _SHARDED_STATE and world > 1:
        words = f"shard parameters, gradients and state over the {world} GPUs (FSDP, loaded in shards)"
        yield Change("sharding", 3, words, costs, {**fsdp, "sharding_degree": world})
    elif value_of(run.sharding) == "fsdp" and value_of(run.sharded_load) is None:
        yield Change("sharding", 1, "load the model in shards (meta device or host memory)", "none",
                     {"sharded_load": True})  # fmt: skip
    if value_of(run.sharding) in _SHARDED_STATE and not run.num_gpus.is_known and not run.sharding_degree.is_known:
        return  # it is spread over more already, and nobody says over how many
    if world == 1:
        for gpus in (2, 4, 8):
            yield Change("sharding", MORE_HARDWARE, f"shard over {gpus} GPUs (FSDP, loaded in shards)",
                         f"{gpus} GPUs instead of one; {costs}",
                         {**fsdp, "sharding_degree": gpus, "num_gpus": gpus})  # fmt: skip
    elif value_of(run.tp_degree) is None and value_of(run.pp_degree) is None:
        for factor in (2, 4):
            words = f"shard over {world * factor} GPUs ({nodes * factor} nodes; FSDP, loaded in shards)"
            edit = {**fsdp, "sharding_degree": world * factor, "nodes": nodes * factor}
            yield Change("sharding", MORE_HARDWARE, words, f"{factor} times the GPUs; {costs} between nodes", edit)


def _precision(run: RunConfig) -> Iterator[tuple[Change, ...]]:
    is_full = (value_of(run.method) or "full") == "full"
    if is_full and value_of(run.precision) not in _PURE_16_BIT and _half(run) == "bf16":
        words = "hold weights, gradients and optimizer state in bf16"
        yield (Change("precision", 7, words, "less exact updates", {"precision": "pure-bf16"}),)


def _half(run: RunConfig) -> str:
    """The 16-bit format that every card in question computes in; without a card, what recent ones do."""
    try:
        cards = [card for name in value_of(run.gpu) or () for card in hardware.find(name)]
    except InputError:
        return "bf16"
    return "bf16" if all(card.has_bf16 for card in cards) else "fp16"


def _adapters(run: RunConfig) -> Iterator[Change]:
    """Adapters on queries and values, as the paper has them: the same for both, so that the two can be compared."""
    method, rank = value_of(run.method) or "full", value_of(run.lora_rank) or 16
    model = value_of(run.model)
    is_convolutional = value_of(run.network) is not None or (model is not None and find_image_net(model) is not None)
    if value_of(run.quantization) is not None or is_convolutional:
        return  # adapters are for the projections of published transformers
    half = _half(run)
    edit: dict[str, Any] = {"lora_rank": rank, "precision": f"pure-{half}"}
    if method == "full":
        is_diffusion = model is not None and pixels.find(model) is not None
        edit["lora_targets"] = ("to_q", "to_v") if is_diffusion else ("q_proj", "v_proj")
        yield Change("method", 8, f"train LoRA adapters (rank {rank}) on {_A_BASE[half]}", "only adapters learn",
                     {**edit, "method": "lora"})  # fmt: skip
    if method in ("full", "lora"):
        yield Change("method", 9, f"QLoRA: nf4 base weights and LoRA adapters (rank {rank})",
                     "only adapters learn; slower matmuls",
                     {**edit, "method": "qlora", "quantization": "nf4"})  # fmt: skip


def _inference(run: RunConfig) -> Iterator[tuple[Change, ...]]:
    if value_of(run.precision) in ("fp32", None):
        half = _half(run)
        yield (Change("precision", 1, f"load the weights in {half}", "less exact numbers",
                      {"precision": f"pure-{half}"}),)  # fmt: skip
    batch = value_of(run.micro_batch) or 1
    smaller = [batch // 2**power for power in range(1, 21) if batch // 2**power >= 1]
    yield tuple(Change("batch", 2, f"batch {size}", "less throughput", {"micro_batch": size}) for size in smaller)
    if value_of(run.kv_cache_dtype) in (None, "fp16", "bf16", "fp32") and run.max_context.is_known:
        yield (Change("cache", 4, "hold the KV cache in fp8", "some accuracy; needs support of the server",
                      {"kv_cache_dtype": "fp8"}),)  # fmt: skip
    degree = value_of(run.tp_degree) or 1
    yield tuple(
        Change("tensor parallel", MORE_HARDWARE, f"split over {degree * more} GPUs (tensor parallel)",
               f"{degree * more} GPUs; all-reduces in every layer",
               {"tp_degree": degree * more, "num_gpus": max(value_of(run.num_gpus) or 1, degree * more)})
        for more in (2, 4, 8) if degree * more <= 8
    )  # fmt: skip
    if value_of(run.quantization) is None:
        yield (Change("method", 7, "quantise the weights to 4 bit", "some accuracy", {"quantization": "int4"}),)
