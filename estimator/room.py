"""How much room a run must have before it is said to fit, where no text shows its micro-batch, or over how many GPUs it
is sharded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from estimator.memory import candidates
from estimator.memory.interval import highest
from estimator.memory.ranks import is_size_open
from estimator.models.choose import ModelChoice
from estimator.runconfig import RunConfig
from estimator.sourced import Origin, Sourced, Unknown
from estimator.units import GIB, MAX_MEMORY

_ROOMY_BATCH = 32
_ORIGIN = Origin("a micro-batch that is not small")
_FEW = Origin("few GPUs")
MAX_BATCH = 4096
MAX_GPUS = 1024


def roomy_bytes(run: RunConfig, model: ModelChoice, architecture: str) -> int:
    """The high end in bytes with a micro-batch that is not small, and on one GPU; 0 where both are known, or what they
    may be."""
    if not model.readings or not candidates.typical(candidates.choices(run, model.readings), architecture).is_training:
        return 0
    found = 0
    if _is_batch_open(run):
        found = _high(run, model, architecture, _ROOMY_BATCH)
    return max(found, _high_on(run, model, architecture, 1)) if _is_count_open(run) else found


def reason(run: RunConfig, model: ModelChoice, architecture: str, usable_bytes: int, card: str) -> str:
    """Why a run whose interval fits on a card is not said to fit: how many samples it has room for, or how many GPUs
    it takes."""
    if _is_count_open(run) and _high_on(run, model, architecture, 1) > usable_bytes:
        counts = (2**power for power in range(1, MAX_GPUS.bit_length()))
        least = next((each for each in counts if _high_on(run, model, architecture, each) <= usable_bytes), None)
        room = f"from {least} on it is sure to fit" if least else "no number is sure to be enough"
        return f"nobody says over how many GPUs it is sharded: {room} on {card}"
    fitting = largest(lambda batch: _high(run, model, architecture, batch) <= usable_bytes, 1)
    needed = _high(run, model, architecture, _ROOMY_BATCH) / GIB
    room = f"up to {fitting} fit" if fitting else "not even 1 is sure to fit"
    return f"no micro-batch is known: {room} on {card}, and {_ROOMY_BATCH} samples may need {needed:.1f} GiB"


def _is_batch_open(run: RunConfig) -> bool:
    batch = run.micro_batch.value
    return isinstance(batch, Unknown) and not batch.plausible


def _is_count_open(run: RunConfig) -> bool:
    """Whether a run shards over as many GPUs as there are, and no text says how many that may be."""
    plausible = (word.value.plausible for word in (run.num_gpus, run.nodes) if isinstance(word.value, Unknown))
    return run.sharding.is_known and is_size_open(run) and not any(plausible)


def _high_on(run: RunConfig, model: ModelChoice, architecture: str, gpus: int) -> int:
    nodes = run.nodes if run.nodes.is_known else Sourced(1, _FEW)
    changed = replace(run, num_gpus=Sourced(gpus, _FEW), nodes=nodes)
    return min(highest(candidates.choices(changed, model.readings), architecture), MAX_MEMORY)


def largest(fits: Callable[[int], bool], start: int) -> int | None:
    """The largest number up to `MAX_BATCH` that fits, by doubling and halving; None where not even 1 does."""
    low, high = 0, max(1, min(start, MAX_BATCH))
    while high <= MAX_BATCH and fits(high):
        low, high = high, 2 * high
    high = min(high, MAX_BATCH + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low or None


def _high(run: RunConfig, model: ModelChoice, architecture: str, micro_batch: int) -> int:
    changed = replace(run, micro_batch=Sourced(micro_batch, _ORIGIN))
    return min(highest(candidates.choices(changed, model.readings), architecture), MAX_MEMORY)
