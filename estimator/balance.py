"""From the tensors of one reading to what is expected to occupy the card: the rows that make a table add up.

The tensors are those of one likely reading. What is expected stands between all of them, is what measured runs of the
kind say, and lies in an allocator beside a driver's context; each of these is a row of its own. A row can be negative:
the middle may lie below the reading that is shown, and measured runs below computed ones.
"""

from __future__ import annotations

from dataclasses import replace

from estimator.memory.interval import Computed
from estimator.memory.runtime import has_communicator
from estimator.report import Interval, Term
from estimator.units import GIB, MIB

_SAID = {
    "has_foreach_step": "optimizer implementation", "attention": "attention implementation", "precision": "precision",
    "sp": "sequence parallelism", "loads_whole": "whether the whole model is on one GPU before it is sharded",
    "lora_targets": "modules with adapters", "seq_len": "length",
}  # fmt: skip
_HABITS = "what versions of libraries do differently"
_LEAST = MIB


def rest(computed: Computed) -> tuple[Term, ...]:
    """What is expected beyond the tensors of the moment; the bytes of both add up to it."""
    middle = computed.middle
    other = Term("other readings", middle - computed.moment.num_bytes, 0, _between(computed),
                 "the middle of readings that are as likely")  # fmt: skip
    why = f"the median of measured runs of this kind ({computed.category})"
    network = ", with the buffers of NCCL" if has_communicator(computed.setup) else ""
    return _shown((other, *beyond(middle, computed.allocated, computed.reserved, computed.occupied, why, network)))


def beyond(
    live: int, allocated: Interval, reserved: Interval, occupied: Interval, why: str, network: str = ""
) -> tuple[Term, ...]:
    """From tensors that were counted to what occupies the card."""
    return (
        Term("measured over computed", allocated.point - live, 0, f"x {allocated.point / live:.3f}, {why}",
             "data/calibration.csv"),
        Term("allocator", reserved.point - allocated.point, 0,
             f"x {reserved.point / allocated.point:.3f}: blocks that are cached or cut off",
             "traces and published pairs of reserved and allocated"),
        Term("driver context", occupied.point - reserved.point, occupied.floor - reserved.floor,
             f"outside PyTorch{network}", "data/runtime.csv"),
    )  # fmt: skip


def _shown(rows: tuple[Term, ...]) -> tuple[Term, ...]:
    """Those that are worth a row; the others' bytes are the last one's."""
    kept = [row for row in rows if abs(row.num_bytes) >= _LEAST]
    lost = sum(row.num_bytes for row in rows) - sum(row.num_bytes for row in kept)
    if kept and lost:
        kept[-1] = replace(kept[-1], num_bytes=kept[-1].num_bytes + lost)
    return tuple(kept)


def _between(computed: Computed) -> str:
    names = [_SAID.get(name, "") for name in computed.mixed]
    words = list(dict.fromkeys(name or _HABITS for name in names))
    low, high = (size / GIB for size in computed.reach)
    return f"tensors of {low:.1f} to {high:.1f} GiB are as likely: {', '.join(words)}"
