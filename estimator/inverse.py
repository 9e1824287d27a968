"""The inverse question: how large a micro-batch, how long a sequence or context still fits, everything else as it is.

Asked of the same estimate: the answer is the largest number whose high end is usable on the smallest of the targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

from estimator.contradictions import longest_of
from estimator.models.facts import ModelFacts
from estimator.report import Largest
from estimator.room import MAX_BATCH
from estimator.runconfig import RunConfig
from estimator.sourced import Origin, Sourced, Unknown

_ORIGIN = Origin("what fits")
_MAX_LENGTH = 2**20
_End = Literal["model", "search"]
Size = Callable[[RunConfig], int]
"""The high end of what a run occupies, in bytes."""


def largest(run: RunConfig, facts: ModelFacts, capacity: int, size: Size) -> tuple[Largest, ...]:
    """An answer for every word that the run has one value of, or could have."""
    return tuple(_largest(run, *question, capacity, size) for question in _words(run, facts))


def _words(run: RunConfig, facts: ModelFacts) -> Iterator[tuple[str, int, _End]]:
    """What can be asked, the most that is asked, and what ends there. How long a sample may be depends on how many
    there are."""
    yield "micro_batch", MAX_BATCH, "search"
    reads_text = facts.kind in ("decoder", "encoder") or (facts.kind == "encdec" and not facts.source_tokens)
    if run.micro_batch.is_known and reads_text and facts.local is None:
        name, most = "max_context" if run.max_context.is_known else "seq_len", longest_of(facts)
        said = getattr(run, name).value
        if most is None or (isinstance(said, int) and said > most):  # then the run goes beyond what was trained on
            yield name, _MAX_LENGTH, "search"
        else:
            yield name, most, "model"


def _largest(run: RunConfig, name: str, limit: int, end: _End, capacity: int, size: Size) -> Largest:
    def need(count: int) -> int:
        changed: dict[str, Any] = {name: Sourced(count, _ORIGIN)}
        return size(replace(run, **changed))

    given = getattr(run, name).value
    start = 1 if isinstance(given, Unknown) else min(given, limit)
    value = below(need, capacity, start, limit)
    return Largest(name, value, end if value == limit else None)


def below(need: Callable[[int], int], capacity: int, start: int, limit: int) -> int | None:
    """The largest number up to `limit` that needs at most `capacity`; None where not even 1 does.

    Memory is nearly a line in what is asked, so every other step guesses from the line through the two ends; halving
    in between keeps the steps few where it is not.
    """
    low, high = 0, max(1, start)
    low_need = high_need = need(high)
    while high_need <= capacity:
        if high == limit:
            return limit
        low, low_need = high, high_need
        high = min(limit, 4 * high)
        high_need = need(high)
    if low == 0 and high > 1:
        low, low_need = 1, need(1)
        if low_need > capacity:
            return None
    is_line = True
    while high - low > 1 and low:
        slope = (high_need - low_need) / (high - low)
        guess = low + int((capacity - low_need) / slope) if is_line and slope > 0 else (low + high) // 2
        middle = min(max(guess, low + 1), high - 1)
        is_line = not is_line
        if (found := need(middle)) <= capacity:
            low, low_need = middle, found
        else:
            high, high_need = middle, found
    return low or None
