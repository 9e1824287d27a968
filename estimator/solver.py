"""Which changes would make a run fit: each edits the run config and asks the same estimate, there is no second model.

First the single changes that fit, the gentlest first; then stacks that fit, without a change they could do without;
then the cheapest instance that fits; then what helps and is not enough. A change that saves nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from estimator import hardware
from estimator.changes import MORE_HARDWARE, OTHER_TRAINING, SAME_TRAINING, Change, changes, value_of
from estimator.report import Estimate, Interval, Suggestion, Verdict
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Origin, Sourced


@dataclass(frozen=True, slots=True)
class Assess:
    """The estimate, twice: `glance` gives the likeliest bytes and whether even the most plausible ones fit, which is
    enough to search with; `look` gives what is shown. None: no number."""

    glance: Callable[[RunConfig], tuple[int, bool] | None]
    look: Callable[[RunConfig], tuple[Interval, Verdict] | None]


_MAX_SUGGESTIONS = 6
_MAX_HELPFUL = 2
_WORTH = 0.97  # a change that saves less than 3 % is not worth a line
_TIERS = (SAME_TRAINING, SAME_TRAINING | {MORE_HARDWARE}, SAME_TRAINING | OTHER_TRAINING)


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
    found = [*fitting, *_stacks(run, result.peak, assess, fitting)]
    helpful = sorted((item for item in singles if not item.fits), key=lambda item: item.point)
    larger = _larger_instance(run, result.peak, assess)
    if not any(item.fits for item in found):
        helpful = [*found, *helpful]
        found = []
    room = _MAX_SUGGESTIONS - len(larger)
    kept = [shown for item in found[:room] if (shown := _suggestion(run, item, assess)) is not None]
    room = min(room - len(kept), _MAX_HELPFUL + (not kept))
    rest = [shown for item in helpful[: max(room, 0)] if (shown := _suggestion(run, item, assess)) is not None]
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
    for allowed in _TIERS:
        if any(item.effort[0] in allowed for item in [*fitting, *found]):
            continue
        stack = _stack(run, before, assess, allowed)
        if stack is not None and stack.fits:
            found.append(stack)
        elif stack is not None and (best is None or stack.point < best.point * _WORTH):
            best = stack
    return found or ([best] if best is not None and not fitting else [])


def _stack(run: RunConfig, before: Interval, assess: Assess, efforts: frozenset[int]) -> _Tried | None:
    """Add the change that makes it fit with the least effort, or else the one that saves most; then drop what is not
    needed."""
    allowed = [tuple(item for item in variants if item.effort in efforts) for variants in changes(run)]
    best: _Tried | None = None
    for _ in range(5):
        done = best.done if best else ()
        peak = best.point if best else before.point
        rest = [variants for variants in allowed if variants and variants[0].kind not in {item.kind for item in done}]
        tried = [item for variants in rest if (item := _first_fitting(run, done, variants, assess)) is not None]
        tried = [item for item in tried if item.point < peak * _WORTH]
        if not tried:
            break
        best = min(tried, key=lambda item: (not item.fits, item.effort if item.fits else (0, 0), item.point))
        if best.fits:
            return _pruned(run, best, assess)
    return best if best is not None and len(best.done) > 1 else None


def _pruned(run: RunConfig, stack: _Tried, assess: Assess) -> _Tried:
    """The stack without changes it fits without, and with gentler variants that do; the greatest effort first."""
    for change in sorted(stack.done, key=lambda item: -item.effort):
        fewer = tuple(item for item in stack.done if item is not change)
        tried = _try(run, fewer, assess) if len(fewer) > 0 else None
        if tried is not None and tried.fits:
            stack = tried
    for used in sorted(stack.done, key=lambda item: -item.effort):
        variants = next(variants for variants in changes(run) if variants[0].kind == used.kind)
        gentler = variants[: next(index for index, item in enumerate(variants) if item.edit == used.edit)]
        tried = _first_fitting(run, stack.done, gentler, assess)
        if tried is not None and tried.fits:
            stack = tried
    return stack


def _suggestion(run: RunConfig, item: _Tried, assess: Assess) -> Suggestion | None:
    answer = assess.look(_applied(run, item.done))
    if answer is None:
        return None
    ordered = sorted(item.done, key=lambda change: change.effort)
    costs = dict.fromkeys(change.trade_off for change in ordered if change.trade_off != "none")
    words = "; and ".join(change.words for change in ordered)
    edit = {name: value for change in item.done for name, value in change.edit.items()}
    return Suggestion(words, *answer, "; ".join(costs) or "none", edit)


def _larger_instance(run: RunConfig, before: Interval, assess: Assess) -> list[Suggestion]:
    """The cheapest instance of the table on which the run fits as it is."""
    gpus, nodes = value_of(run.num_gpus) or 1, value_of(run.nodes) or 1
    sold = [card for card in hardware.all_instances() if card.usd_hour and _is_offer(card, gpus)]
    roomy = [card for card in sold if card.usable_bytes and card.usable_bytes >= before.high]
    for card in sorted(roomy, key=lambda card: card.usd_hour or 0.0)[:3]:
        there = replace(run, gpu=Sourced((card.instance,), Origin("suggestion")), gpu_memory=UNSET)
        answer = assess.look(there)
        if answer is not None and answer[1] == "fits":
            times = f"{nodes} x " if nodes > 1 else ""
            words = f"run on {times}{card.instance} ({card.provider}): {card.count} x {card.name}"
            price = f"list price {nodes * (card.usd_hour or 0.0):.2f} USD per hour"
            edit = {"gpu": (card.instance,), "gpu_memory": None}
            return [Suggestion(words, answer[0], "fits", price, edit)]
    return []


def _is_offer(card: hardware.Card, gpus: int) -> bool:
    """Slices and instances whose GPUs the provider does not count are not advice."""
    return card.is_supported and card.is_stated and card.count >= gpus
