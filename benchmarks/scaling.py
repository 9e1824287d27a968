"""What 100, 10,000 and 1,000,000 pull requests a day need, from measured numbers. ``python -m benchmarks.scaling``.

A day is simulated review by review: arrivals by the hour of an office day, a pool of workers, and in each installation
one writer at GitHub's pace. Installations are of unequal size, as organisations are.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

_SHARES = (1, 1, 1, 1, 1, 1, 2, 3, 5, 7, 8, 8, 7, 7, 8, 8, 8, 7, 5, 4, 3, 2, 1, 1)
"""Arrivals by hour of teams in few time zones, in percent."""
REVIEWS_PER_PULL = 4.0
"""Opened, pushed to, re-run."""
DELIVERIES_PER_PULL = 30.0
"""Everything that GitHub sends, most of it ignored."""
_BURST = 5.0
"""Deliveries in a busy second over the peak hour's mean."""
REQUESTS_PER_HOUR = 5_000
WRITES_PER_HOUR = 500
SECONDS_BETWEEN_WRITES = 1.0
"""GitHub's limits for one installation of up to 20 repositories."""
WRITES = (2, 3)
"""Of one review: two check runs are created at once; then the summary is written and two runs are concluded."""
_SIZES = (1, 2, 3, 4)
"""Installations are of these sizes in equal numbers."""
_FULL = 0.6
"""Of its hourly limit the largest installation uses so much: a window that is nearly full makes everybody wait."""
_GITHUB_SECONDS = 0.2
"""Assumed for one request to the real GitHub; the local one answers in milliseconds."""
_DAYS_KEPT = 7
_MOST_SIMULATED = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one review takes, measured by `benchmarks.load`."""

    worker_seconds: float
    requests: float
    redis_kib: float
    worker_mib: float
    ack_ms: float


@dataclass(slots=True)
class _Writer:
    """One installation: a second between writes, 500 an hour."""

    last: float = -1e9
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=WRITES_PER_HOUR))

    def write(self, now: float) -> float:
        """When a write that is wanted now is done."""
        done = max(now, self.last + SECONDS_BETWEEN_WRITES)
        if len(self.recent) == WRITES_PER_HOUR:
            done = max(done, self.recent[0] + 3_600)
        self.last = done
        self.recent.append(done)
        return done


def simulate(pulls: int, workers: int, installations: int, unit: Unit, seed: int = 1) -> list[float]:
    """Seconds from each delivery to its concluded checks, sorted.

    A very large day is simulated as a share of it with that share of workers and installations, which is no better:
    a smaller pool smooths less.
    """
    dice = random.Random(seed)
    share = min(1.0, _MOST_SIMULATED / (pulls * REVIEWS_PER_PULL))
    writers = [_Writer() for _ in range(max(1, round(installations * share)))]
    weights = [_SIZES[rank % len(_SIZES)] for rank in range(len(writers))]
    free = [0.0] * max(1, math.floor(workers * share))
    arrivals = sorted(
        (hour + dice.random()) * 3_600
        for hour, percent in enumerate(_SHARES)
        for _ in range(round(pulls * share * REVIEWS_PER_PULL * percent / 100))
    )
    waits = []
    for arrival, writer in zip(arrivals, dice.choices(writers, weights, k=len(arrivals)), strict=True):
        opened = arrival
        for _ in range(WRITES[0]):
            opened = writer.write(opened)
        start = max(opened, heapq.heappop(free))
        done = start + unit.worker_seconds * dice.gammavariate(2.0, 0.5)
        heapq.heappush(free, done)
        for _ in range(WRITES[1]):
            done = writer.write(done)
        waits.append(done - arrival)
    return sorted(waits)


def workers_for(pulls: int, unit: Unit) -> int:
    """At most 70 % busy in the peak hour, and never fewer than two."""
    peak = pulls * REVIEWS_PER_PULL * max(_SHARES) / 100
    return max(2, math.ceil(peak * unit.worker_seconds / 3_600 / 0.7))


def installations_for(pulls: int, unit: Unit) -> int:
    """Organisations among which the load must be spread so that the largest of them keeps within GitHub's limits."""
    peak = pulls * REVIEWS_PER_PULL * max(_SHARES) / 100
    by_limit = max(peak * unit.requests / REQUESTS_PER_HOUR, peak * sum(WRITES) / WRITES_PER_HOUR)
    if by_limit <= _FULL:
        return 1
    return math.ceil(by_limit * max(_SIZES) * len(_SIZES) / sum(_SIZES) / _FULL)


def largest_day(unit: Unit) -> int:
    """Pull requests a day that one installation takes within GitHub's limits in its peak hour."""
    reviews = min(REQUESTS_PER_HOUR / unit.requests, WRITES_PER_HOUR / sum(WRITES))
    return int(reviews / REVIEWS_PER_PULL / max(_SHARES) * 100)


def table(unit: Unit) -> str:
    """Markdown."""
    names = ("pull requests a day", "reviews in the peak hour", "deliveries/s in a burst", "receiver processes")
    more = ("workers", "their memory", "Redis", "installations", "p50 / p95 / p99 to the conclusion")
    lines = [f"| {' | '.join([*names, *more])} |", "|" + " ---: |" * (len(names) + len(more))]
    for pulls in (100, 10_000, 1_000_000):
        workers, installations = workers_for(pulls, unit), installations_for(pulls, unit)
        waits = simulate(pulls, workers, installations, unit)
        peak = pulls * REVIEWS_PER_PULL * max(_SHARES) / 100
        burst = pulls * DELIVERIES_PER_PULL * max(_SHARES) / 100 / 3_600 * _BURST
        redis_mib = 16 + pulls * REVIEWS_PER_PULL * _DAYS_KEPT * unit.redis_kib / 1024
        receivers = max(2, math.ceil(burst * unit.ack_ms / 1_000 / 0.5))
        times = " / ".join(f"{waits[min(len(waits) - 1, int(len(waits) * part))]:.0f}" for part in (0.5, 0.95, 0.99))
        cells = [f"{pulls:,}", f"{peak:,.0f}", f"{burst:,.1f}", f"{receivers:,}", f"{workers:,}"]
        cells += [
            f"{workers * unit.worker_mib / 1024:,.1f} GiB",
            _memory(redis_mib),
            f"{installations:,}",
            f"{times} s",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _memory(mib: float) -> str:
    return f"{mib / 1024:,.1f} GiB" if mib > 1024 else f"{mib:,.0f} MiB"


def main() -> None:
    """Print the table and what one installation takes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--load", type=Path, required=True, help="numbers of `benchmarks.load --json`")
    parser.add_argument("--ack-ms", type=float, default=2.2, help="processor time of one delivery in the receiver")
    args = parser.parse_args()
    found = json.loads(args.load.read_text(encoding="utf-8"))
    unit = Unit(
        # A core of its own, the network, and the pause between the writes at the end.
        worker_seconds=found["job_cpu_s"] + _GITHUB_SECONDS * found["requests_per_review"] + WRITES[1],
        requests=found["requests_per_review"],
        redis_kib=found["redis_kib_per_review"],
        worker_mib=found["peak_mib"],
        ack_ms=args.ack_ms,
    )
    print(f"{table(unit)}\n\nOne installation: {largest_day(unit):,} pull requests a day.")


if __name__ == "__main__":
    main()
