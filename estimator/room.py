"""How much room a run must have before it is said to fit, where no text shows its micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from estimator.memory import candidates
from estimator.memory.interval import outlook
from estimator.models.choose import ModelChoice
from estimator.runconfig import RunConfig
from estimator.sourced import Origin, Sourced, Unknown
from estimator.units import GIB, MAX_MEMORY

_ROOMY_BATCH = 32
_ORIGIN = Origin("a micro-batch that is not small")
MAX_BATCH = 4096


def roomy_bytes(run: RunConfig, model: ModelChoice, architecture: str) -> int:
    """The high end in bytes with a micro-batch that is not small; 0 where it, or what it may be, is known."""
    batch = run.micro_batch.value
    if not isinstance(batch, Unknown) or batch.plausible or not model.readings:
        return 0
    if not candidates.typical(candidates.choices(run, model.readings), architecture).is_training:
        return 0
    return _high(run, model, architecture, _ROOMY_BATCH)


def reason(run: RunConfig, model: ModelChoice, architecture: str, usable_bytes: int, card: str) -> str:
    """Why a run whose interval fits on a card is not said to fit: how many samples it has room for."""
    fitting = largest(lambda batch: _high(run, model, architecture, batch) <= usable_bytes, 1)
    needed = _high(run, model, architecture, _ROOMY_BATCH) / GIB
    room = f"up to {fitting} fit" if fitting else "not even 1 is sure to fit"
    return f"no micro-batch is known: {room} on {card}, and {_ROOMY_BATCH} samples may need {needed:.1f} GiB"


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
    return min(outlook(candidates.choices(changed, model.readings), architecture)[1], MAX_MEMORY)
