"""Which changes would make a run fit: each edits the run config and asks the same estimate, there is no second model.

First what fits, the gentlest first: single changes, and stacks of the fewest changes where none of an effort is enough;
then the cheapest instances that fit; then what helps and is not enough. A change that saves nothing is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from estimator import hardware
from estimator.changes import (
    FEWER_PARAMETERS,
    MORE_HARDWARE,
    OTHER_ARITHMETIC,
    SAME_TRAINING,
    Change,
    changes,
    value_of,
)
from estimator.report import Estimate, Interval, Suggestion, Verdict
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Origin, Sourced


@dataclass(frozen=True, slots=True)
class Assess:
    """The estimate, twice: `glance` gives the likeliest bytes and whether even the most plausible ones fit, which is
    enough to search with; `look` gives what is shown. None: no number."""

    glance: Callable[[RunConfig], tuple[int, bool] | None]
    look: Callable[[RunConfig], tuple[Interval, Verdict] | None]


_MAX_SUGGESTIONS = 8
_MAX_INSTANCES = 3
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MAX_HELPFUL = 2
_WORTH = 0.97  # a change that saves less than 3 % is not worth a line
_TIERS = (
    (SAME_TRAINING, SAME_TRAINING),
    (SAME_TRAINING | {MORE_HARDWARE}, SAME_TRAINING | {MORE_HARDWARE}),
    (SAME_TRAINING | OTHER_ARITHMETIC, SAME_TRAINING | OTHER_ARITHMETIC | FEWER_PARAMETERS),
    (SAME_TRAINING | FEWER_PARAMETERS, SAME_TRAINING | FEWER_PARAMETERS),
)
"""Which efforts a stack may have, and which make it needless. Less exact weights and fewer trained parameters are no
degrees of one thing: many changes around the one say nothing against few around the other."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """Changes applied together, and what the run is then."""

    done: tuple[Change, ...]
    point: int
    fits: bool

    @property
    def effort(self) -> tuple[int, int]:
        return max(change.effort for change in self.done), len(self.done)


def with_suggestions(run: RunConfig, result: Estimate, assess: Assess) -> Estimate:
    """`result` with ranked single changes and, where no gentle one is enough, stacks of them that are."""
    if result.peak is None or result.verdict not in ("exceeds", "borderline"):
        return result
    singles = _singles(run, result.peak, assess)
    fitting = sorted((item for item in singles if item.fits), key=lambda item: item.effort)
    found = sorted([*fitting, *_stacks(run, result.peak, assess, fitting)], key=lambda item: item.effort)
    helpful = sorted((item for item in singles if not item.fits), key=lambda item: item.point)
    larger = _larger_instances(run, result.peak, assess)
    if not any(item.fits for item in found):
        helpful = [*found, *helpful]
        found = []
    room = _MAX_SUGGESTIONS - len(larger)
    kept = [shown for item in found[:room] if (shown := _suggestion(run, item, result.peak, assess)) is not None]
    room = min(room - len(kept), _MAX_HELPFUL + (not kept))
    wanted = helpful[: max(room, 0)]
    rest = [shown for item in wanted if (shown := _suggestion(run, item, result.peak, assess)) is not None]
    return replace(result, suggestions=(*kept, *larger, *rest))


def _singles(run: RunConfig, before: Interval, assess: Assess) -> list[_Tried]:
    """Of each kind the gentlest variant that fits, or else the one that saves most."""
    found = []
    for variants in changes(run):
        tried = _first_fitting(run, (), variants, assess)
        if tried is not None and tried.point < before.point * _WORTH:
            found.append(tried)
    return found


def _first_fitting(
    run: RunConfig, done: tuple[Change, ...], variants: Sequence[Change], assess: Assess
) -> _Tried | None:
    best: _Tried | None = None
    for change in variants:
        tried = _try(run, (*(item for item in done if item.kind != change.kind), change), assess)
        if tried is None:
            continue
        if tried.fits:
            return tried
        if best is None or tried.point < best.point:
            best = tried
    return best


def _try(run: RunConfig, done: tuple[Change, ...], assess: Assess) -> _Tried | None:
    answer = assess.glance(_applied(run, done))
    return _Tried(done, *answer) if answer is not None else None


def _applied(run: RunConfig, done: Sequence[Change]) -> RunConfig:
    for change in done:
        run = change.applied_to(run)
    return run


def _stacks(run: RunConfig, before: Interval, assess: Assess, fitting: Sequence[_Tried]) -> list[_Tried]:
    """One stack for each tier of effort that has no fitting single change and needs its own; the best effort if none
    fits."""
    found: list[_Tried] = []
    best: _Tried | None = None
    for allowed, enough in _TIERS:
        if any(item.effort[0] in enough for item in [*fitting, *found]):
            continue
        stack = _stack(run, before, assess, allowed)
        if stack is not None and stack.fits:
            found.append(stack)
        elif stack is not None and (best is None or stack.point < best.point * _WORTH):
            best = stack
    return found or ([best] if best is not None and not fitting else [])


def _stack(run: RunConfig, before: Interval, assess: Assess, efforts: frozenset[int]) -> _Tried | None:
    """The fewest changes that fit with the least effort; without any that fit, all that help."""
    allowed = [
        kept for variants in changes(run) if (kept := tuple(item for item in variants if item.effort in efforts))
    ]
    for limit in sorted({item.effort for variants in allowed for item in variants}):
        strongest = [
            within[-1] for variants in allowed if (within := [item for item in variants if item.effort <= limit])
        ]
        everything = _try(run, tuple(strongest), assess)
        if everything is not None and everything.fits:
            return _gentlest(run, _fewest(run, strongest, everything, assess), assess)
    return _helping(run, [variants[-1] for variants in allowed], before, assess)


def _fewest(run: RunConfig, able: Sequence[Change], everything: _Tried, assess: Assess) -> _Tried:
    """Of changes that fit together as few as fit, of those of one number the ones of least effort."""
    for count in range(1, len(able)):
        for done in sorted(combinations(able, count), key=lambda items: sum(item.effort for item in items)):
            tried = _try(run, done, assess)
            if tried is not None and tried.fits:
                return tried
    return everything


def _gentlest(run: RunConfig, stack: _Tried, assess: Assess) -> _Tried:
    """The stack with gentler variants that fit; the greatest effort first."""
    for used in sorted(stack.done, key=lambda item: -item.effort):
        variants = next(variants for variants in changes(run) if variants[0].kind == used.kind)
        gentler = variants[: next(index for index, item in enumerate(variants) if item.edit == used.edit)]
        tried = _first_fitting(run, stack.done, gentler, assess)
        if tried is not None and tried.fits:
            stack = tried
    return stack


def _helping(run: RunConfig, done: Sequence[Change], before: Interval, assess: Assess) -> _Tried | None:
    """What saves most where nothing fits: all together, without a change that the others make worthless."""
    best = _try(run, tuple(done), assess)
    for change in sorted(done, key=lambda item: -item.effort):
        fewer = tuple(item for item in best.done if item is not change) if best else ()
        tried = _try(run, fewer, assess) if fewer else None
        if best is not None and tried is not None and tried.point * _WORTH <= best.point:
            best = tried
    is_worth = best is not None and len(best.done) > 1 and best.point < before.point * _WORTH
    return best if is_worth else None


def _suggestion(run: RunConfig, item: _Tried, before: Interval, assess: Assess) -> Suggestion | None:
    answer = assess.look(_applied(run, item.done))
    if answer is None:
        return None
    ordered = sorted(item.done, key=lambda change: change.effort)
    costs = dict.fromkeys(change.trade_off for change in ordered if change.trade_off != "none")
    words = "; and ".join(change.words for change in ordered)
    edit = {name: value for change in item.done for name, value in change.edit.items()}
    return Suggestion(words, *answer, "; ".join(costs) or "none", before.point - answer[0].point, edit)


def _larger_instances(run: RunConfig, before: Interval, assess: Assess) -> list[Suggestion]:
    """The cheapest instances of the table on which the run fits as it is, one of each provider."""
    gpus, nodes = value_of(run.num_gpus) or 1, value_of(run.nodes) or 1
    sold = [card for card in hardware.all_instances() if card.usd_hour and _is_offer(card, gpus)]
    roomy = [card for card in sold if card.usable_bytes and card.usable_bytes >= before.high]
    cheapest = {card.provider: card for card in sorted(roomy, key=lambda card: -(card.usd_hour or 0.0))}
    found = []
    for card in sorted(cheapest.values(), key=lambda card: card.usd_hour or 0.0)[:_MAX_INSTANCES]:
        there = replace(run, gpu=Sourced((card.instance,), Origin("suggestion")), gpu_memory=UNSET)
        answer = assess.look(there)
        if answer is not None and answer[1] == "fits":
            times = f"{nodes} x " if nodes > 1 else ""
            words = f"run on {times}{card.instance} ({card.provider}): {card.count} x {card.name}"
            edit = {"gpu": (card.instance,), "gpu_memory": None}
            found.append(Suggestion(words, answer[0], "fits", _price(card, nodes), 0, edit))
    return found


def _price(card: hardware.Card, nodes: int) -> str:
    """What it costs, where, and when that was so."""
    date = found[0] if (found := _DATE.search(card.priced)) else "date not stated"
    place = card.region or "region not stated"
    return f"list price {nodes * (card.usd_hour or 0.0):.2f} USD per hour ({place}, {date})"


def _is_offer(card: hardware.Card, gpus: int) -> bool:
    """Slices and instances whose GPUs the provider does not count are not advice."""
    return card.is_supported and card.is_stated and card.count >= gpus
