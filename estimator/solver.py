"""Changes that would make a run fit. Each one edits the run config and asks the same estimate: no second model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from estimator import hardware
from estimator.report import Estimate, Suggestion
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Origin, Sourced, Unknown

_ORIGIN = Origin("suggestion")
_MAX_SUGGESTIONS = 6
_WORTH = 0.97  # a change that saves less than 3 % is not worth a line


@dataclass(frozen=True, slots=True)
class Change:
    """One edit of a run config, in words, with what it costs."""

    words: str
    trade_off: str
    run: RunConfig
    is_same_training: bool = True  # False: other parameters, or other arithmetic, are trained


def with_suggestions(run: RunConfig, result: Estimate, estimate: Callable[..., Estimate]) -> Estimate:
    """`result` with ranked single changes and, where none is enough, a stack of them that is."""
    if result.peak is None or result.verdict not in ("exceeds", "borderline"):
        return result
    tried = [(change, estimate(change.run, with_suggestions=False)) for change in _changes(run)]
    useful = [(change, after) for change, after in tried if _saves(result, after)]
    useful.sort(key=lambda item: _order(*item))
    suggestions = [_suggestion(change, after) for change, after in useful]
    if not any(change.is_same_training and after.verdict == "fits" for change, after in useful):
        stacks = [_stack(run, result, estimate, may_change=may_change) for may_change in (False, True)]
        found = list(dict.fromkeys(stack for stack in stacks if stack is not None))
        fitting = [stack for stack in found if stack.verdict == "fits"]
        suggestions = [*(fitting[:1] or found[:1]), *suggestions]
    larger = _larger_instance(run, result, estimate)
    kept = suggestions[: _MAX_SUGGESTIONS - len(larger)]
    return replace(result, suggestions=(*kept, *larger))


def _larger_instance(run: RunConfig, result: Estimate, estimate: Callable[..., Estimate]) -> list[Suggestion]:
    """The cheapest instance of the table on which the run fits as it is."""
    assert result.peak is not None
    gpus = _value(run.num_gpus) or 1
    sold = [card for card in hardware.all_instances() if card.usd_hour and _is_offer(card, gpus)]
    roomy = [card for card in sold if card.usable_bytes and card.usable_bytes >= result.peak.high]
    for card in sorted(roomy, key=lambda card: card.usd_hour or 0.0)[:3]:
        after = estimate(_set(replace(run, gpu_memory=UNSET), gpu=(card.instance,)), with_suggestions=False)
        if after.verdict == "fits" and after.peak is not None:
            words = f"run on {card.instance}: {card.count} x {card.name}"
            return [
                Suggestion(words, after.peak, "fits", f"{card.usd_hour:.2f} USD per hour (list price in our table)")
            ]
    return []


def _order(change: Change, after: Estimate) -> tuple[int, bool, int]:
    """What fits first; then what leaves the training as it is; then what saves most."""
    return _rank(after), not change.is_same_training, after.peak.point if after.peak else 0


def _is_offer(card: hardware.Card, gpus: int) -> bool:
    """Slices and instances whose GPUs the provider does not count are not advice."""
    return card.is_supported and card.is_stated and card.count >= gpus


def _saves(before: Estimate, after: Estimate) -> bool:
    if before.peak is None or after.peak is None:
        return False
    return after.peak.point < before.peak.point * _WORTH


def _rank(after: Estimate) -> int:
    return {"fits": 0, "borderline": 1, "unknown": 2, "exceeds": 3}[after.verdict]


def _suggestion(change: Change, after: Estimate) -> Suggestion:
    assert after.peak is not None
    return Suggestion(change.words, after.peak, after.verdict, change.trade_off)


def _stack(
    run: RunConfig, result: Estimate, estimate: Callable[..., Estimate], *, may_change: bool
) -> Suggestion | None:
    """Add the change that saves most until it fits; only a stack of at least two is news."""
    current, done, costs = run, [], []
    best = result
    for _ in range(5):
        allowed = [change for change in _changes(current) if change.is_same_training or may_change]
        options = [(change, estimate(change.run, with_suggestions=False)) for change in allowed]
        options = [item for item in options if _saves(best, item[1])]
        if not options:
            break
        change, best = min(options, key=lambda item: (_rank(item[1]), item[1].peak.point if item[1].peak else 0))
        current = change.run
        done.append(change.words)
        costs.append(change.trade_off)
        if best.verdict == "fits":
            break
    if len(done) < 2 or best.peak is None or _rank(best) >= _rank(result):
        return None
    return Suggestion("; and ".join(done), best.peak, best.verdict, "; ".join(dict.fromkeys(costs)))


def _value(sourced: Sourced[Any]) -> Any:
    return None if isinstance(sourced.value, Unknown) else sourced.value


def _set(run: RunConfig, **words: Any) -> RunConfig:
    changes: dict[str, Any] = {name: Sourced(value, _ORIGIN) for name, value in words.items()}
    return replace(run, **changes)


def _changes(run: RunConfig) -> Iterator[Change]:
    """Every change that is not already so."""
    task = _value(run.task) or ("generate" if run.max_context.is_known else "train")
    if task != "train":
        yield from _inference_changes(run)
        return
    yield from _activation_changes(run)
    yield from _state_changes(run)
    yield from _sharding_changes(run)


def _activation_changes(run: RunConfig) -> Iterator[Change]:
    if _value(run.grad_checkpointing) != "full":
        yield Change("turn on gradient checkpointing", "about 30 % more compute per step",
                     _set(run, grad_checkpointing="full"))  # fmt: skip
    batch, accumulated = _value(run.micro_batch), _value(run.grad_accum) or 1
    if batch is not None and batch > 1:
        for divisor in [2**power for power in range(1, 12) if batch % 2**power == 0 or batch // 2**power >= 1]:
            smaller = max(batch // divisor, 1)
            if smaller * divisor != batch:
                continue
            words = f"micro-batch {smaller} with {accumulated * divisor} accumulation steps"
            yield Change(words, "same global batch; more, smaller steps",
                         _set(run, micro_batch=smaller, grad_accum=accumulated * divisor))  # fmt: skip
            if smaller == 1:
                break
    if _value(run.attention) == "eager":
        yield Change("use attention sdpa", "none on supported GPUs", _set(run, attention="sdpa"))


def _state_changes(run: RunConfig) -> Iterator[Change]:
    method = _value(run.method) or "full"
    precision, quantization = _value(run.precision), _value(run.quantization)
    if method == "full" and quantization is None:
        if _value(run.optimizer) in (None, "adamw", "adagrad", "rmsprop"):
            yield Change("use 8-bit AdamW", "quantised optimizer state; tiny tensors stay fp32",
                         _set(run, optimizer="adamw-8bit"))  # fmt: skip
        if precision not in ("pure-bf16", "pure-fp16", "bf16-master", "fp16-master"):
            yield Change("hold weights, gradients and optimizer state in bf16", "less exact updates; needs a bf16 GPU",
                         _set(run, precision="pure-bf16"), is_same_training=False)  # fmt: skip
        lora = _set(run, method="lora", lora_rank=_value(run.lora_rank) or 16, precision="pure-bf16")
        yield Change("train LoRA adapters (rank 16) on a bf16 base", "only adapters learn", lora, False)
    if method in ("full", "lora") and quantization is None:
        qlora = _set(run, method="qlora", quantization="nf4", lora_rank=_value(run.lora_rank) or 16,
                     precision="pure-bf16")  # fmt: skip
        yield Change("QLoRA: nf4 base weights and LoRA adapters", "only adapters learn; slower matmuls", qlora, False)
    if (_value(run.offload) or "none") == "none" and method == "full":
        yield Change("keep optimizer state in host memory", "slower steps; needs host memory",
                     _set(run, offload="optimizer"))  # fmt: skip


def _sharding_changes(run: RunConfig) -> Iterator[Change]:
    world = (_value(run.num_gpus) or 1) * (_value(run.nodes) or 1)
    if _value(run.sharding) in ("fsdp", "zero3"):
        return
    method = _value(run.method) or "full"
    if world > 1:
        yield Change(f"shard parameters, gradients and state over the {world} GPUs (FSDP)",
                     "all-gathers in forward and backward",
                     _set(run, sharding="fsdp", sharding_degree=world))  # fmt: skip
    elif method == "full":
        yield Change("shard over 8 GPUs (FSDP)", "8 GPUs instead of one; all-gathers in forward and backward",
                     _set(run, sharding="fsdp", sharding_degree=8, num_gpus=8))  # fmt: skip


def _inference_changes(run: RunConfig) -> Iterator[Change]:
    if _value(run.quantization) is None:
        yield Change("quantise the weights to 4 bit", "some accuracy", _set(run, quantization="int4"))
    if _value(run.precision) in ("fp32", None):
        yield Change("load the weights in bf16", "needs a bf16 GPU", _set(run, precision="pure-bf16"))
    batch = _value(run.micro_batch)
    if batch is not None and batch > 1:
        yield Change(f"batch {batch // 2 or 1}", "less throughput", _set(run, micro_batch=batch // 2 or 1))
    if _value(run.kv_cache_dtype) in (None, "fp16", "bf16", "fp32"):
        yield Change("hold the KV cache in fp8", "some accuracy; needs support", _set(run, kv_cache_dtype="fp8"))
