"""A trace as the same answer that the static tier gives."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from analyzer.errors import InputError
from estimator.balance import beyond
from estimator.estimation import runtime_key, targets
from estimator.exact.examples import example
from estimator.exact.trace import OPTIMIZERS, PRECISIONS, Request, Traced, trace
from estimator.memory.interval import reserve_with, residual_of
from estimator.memory.runtime import overhead
from estimator.report import Estimate, InputLine, Interval, ModelAnswer, Moment, TargetAnswer, Term
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Sourced, Unknown
from estimator.verdict import least_favourable, verdict_for

SOURCE = "torch: MemTracker under FakeTensorMode"
_ASSUMED = {"input": "made for the first layer: the factory returns no example"}
_UNSURE = (0.93, 1.0, 1.12)
"""Fake tensors on a CPU landed within 5-12 % of a T4's peak for GPT-2 and BERT (shared facts, measured_peaks.md)."""


def estimate_exactly(name: str, run: RunConfig) -> Estimate:
    """The peak of ``package.module:factory`` under the words of `run`. Imports and calls the user's code.

    Raises `InputError` for a name that cannot be imported, a word that cannot be traced, or a model that fails.
    """
    build = factory(name)
    batch = _word(run.micro_batch, 1)
    precision = _one_of(PRECISIONS, "precision", run.precision, "fp32")
    optimizer = _one_of(OPTIMIZERS, "optimizer", run.optimizer, "adamw")
    length, image = _word(run.seq_len, None), _word(run.image_size, None)
    task = _word(run.task, "train")
    assumed = {
        name: value
        for name, value in (("precision", precision), ("optimizer", optimizer))
        if not getattr(run, name).is_known
    }

    def inputs(model: Any) -> Sequence[Any]:
        made = example(model, batch=batch, length=length, image=image)
        assumed["input"] = ", ".join("x".join(map(str, each.shape)) for each in made)
        return made

    request = Request(build, inputs, optimizer, precision, task == "train")
    try:
        traced = trace(request)
    except ImportError as error:
        raise InputError(
            f"--exact needs torch (`pip install '.[exact]'` in a checkout of Preflight): {error}"
        ) from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # what it imports is the user's, and may end the process
        raise InputError(f"{name} failed under fake tensors: {type(error).__name__}: {str(error)[:300]}") from error
    return _answer(name, run, traced, assumed)


def factory(name: str) -> Callable[[], Any]:
    """The callable that ``package.module:factory`` names; modules are looked for in the working directory first."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise InputError(f"{name}: give package.module:factory")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise InputError(f"{name}: cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise InputError(f"{name} is no function that makes a model")
    made: Callable[[], Any] = found
    return made


def _word(sourced: Sourced[Any], otherwise: Any) -> Any:
    return otherwise if isinstance(sourced.value, Unknown) else sourced.value


def _one_of(known: Collection[str], what: str, sourced: Sourced[str], otherwise: str) -> str:
    """The word, or `otherwise` where none was given. Raises `InputError` for one that cannot be traced."""
    if sourced != UNSET and isinstance(sourced.value, Unknown):
        raise InputError(f"{what} {sourced.value.reason}: one of {', '.join(known)} can be traced")
    word = str(_word(sourced, otherwise))
    if word not in known:
        raise InputError(f"{what} {word!r} cannot be traced: one of {', '.join(known)}")
    return word


def _answer(name: str, run: RunConfig, traced: Traced, assumed: Mapping[str, str]) -> Estimate:
    cards = targets(run)
    low, point, high = _UNSURE
    is_training = traced.trained > 0
    reserve = reserve_with(traced.state / traced.peak) if is_training else residual_of("reserved-over-allocated")
    allocated = _interval(traced.must, traced.peak, (low, point, high))
    reserved = _interval(traced.must, traced.peak, (low, point * reserve.point, high * reserve.high))
    floor, expected = overhead(runtime_key(cards))
    peak = Interval(
        reserved.floor + floor, reserved.low + floor, reserved.point + expected, reserved.high + 2 * expected - floor
    )
    answers = tuple(
        TargetAnswer(card.label, card.count, card.usable_bytes, verdict_for(peak, card.usable_bytes)) for card in cards
    )
    terms = tuple(Term(kind, size, 0, "counted", SOURCE) for kind, size in traced.at_peak)
    live = sum(size for _, size in traced.at_peak)
    if live:
        terms += beyond(live, allocated, reserved, peak, "what traces leave out of what was measured")
    timeline = tuple(Moment(moment, (Term("alive", size, 0, "counted", SOURCE),)) for moment, size in traced.moments)
    inputs = tuple(
        InputLine(word, run.to_document()[word], sourced.describe())
        for word, sourced in run.words().items() if sourced.is_known
    )  # fmt: skip
    inputs += tuple(InputLine(word, value, _ASSUMED.get(word, "assumed: not given")) for word, value in assumed.items())
    return Estimate(
        verdict=least_favourable([each.verdict for each in answers]),
        model=ModelAnswer(name, traced.params, SOURCE), targets=answers, peak=peak, allocated=allocated,
        reserved=reserved, moment="the worst of two steps", terms=terms, timeline=timeline, inputs=inputs,
        reasons=tuple(_remarks(run, has_cards=bool(cards), is_own="input" not in assumed)),
    )  # fmt: skip


def _remarks(run: RunConfig, *, has_cards: bool, is_own: bool) -> Iterator[str]:
    """What the number is not about."""
    if not has_cards:
        yield "no GPU to compare with is known"
    for name in ("micro_batch", "seq_len", "image_size"):
        if is_own and getattr(run, name).is_known:
            yield f"{name} is not used: the factory returns an example of its own"


def _interval(must: int, size: int, factors: tuple[float, float, float]) -> Interval:
    low, point, high = (max(int(size * factor), must) for factor in factors)
    return Interval(must, low, max(point, low), max(high, point))
