"""What fits a run: the cheapest known instances on which it fits as it is, and the largest micro-batch on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from estimator import hardware
from estimator.changes import value_of
from estimator.estimation import estimate
from estimator.report import Estimate, Interval
from estimator.room import largest
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Origin, Sourced

_ORIGIN = Origin("what fits")
_MAX_TRIED = 200
"""Kinds of card that are estimated, the cheapest first: a run that fits none of them fits nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An instance on which the run fits. `usd_hour` is the list price of all its nodes, in `region` on `priced`."""

    provider: str
    instance: str
    gpu: str
    gpus: int
    nodes: int
    usd_hour: float
    region: str
    priced: str
    peak: Interval
    largest_micro_batch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """`present` is the run on its own target; `num_known` instances had a price, enough GPUs and a known memory."""

    present: Estimate
    offers: tuple[Offer, ...]
    num_known: int


def offers(run: RunConfig, search: Sequence[str] = (), limit: int = 8) -> Offers:
    """At most `limit` offers, the cheapest of each provider and GPU; each word of `search` narrows them.

    Raises `InputError` as `estimate` does.
    """
    present = estimate(run)
    known = sorted(_known(run, search), key=lambda card: card.usd_hour or 0.0)
    found: list[Offer] = []
    tried: dict[tuple[str, int | None, int], Interval | None] = {}
    depends_on_count = not run.num_gpus.is_known and value_of(run.sharding) not in (None, "none", "ddp")
    taken: set[tuple[str, str]] = set()
    for card in known if present.peak is not None else ():
        size = (card.name, card.usable_bytes, card.count if depends_on_count else 0)
        if (card.provider, card.name) in taken or (size not in tried and len(tried) >= _MAX_TRIED):
            continue
        if size not in tried:
            tried[size] = _peak_where_it_fits(run, card)
        peak = tried[size]
        if peak is not None:
            taken.add((card.provider, card.name))
            found.append(_offer(run, card, peak))
            if len(found) >= limit:
                break
    return Offers(present=present, offers=tuple(found), num_known=len(known))


def _known(run: RunConfig, search: Sequence[str]) -> list[hardware.Card]:
    """Whole instances with a price, a known memory and enough GPUs for a node of the run."""
    gpus = value_of(run.num_gpus) or 1
    words = [word.lower() for word in search]
    return [
        card
        for card in hardware.all_instances()
        if card.usd_hour and card.usable_bytes and card.is_supported and card.is_stated and card.count >= gpus
        and all(word in f"{card.provider} {card.instance} {card.name}".lower() for word in words)
    ]  # fmt: skip


def _there(run: RunConfig, card: hardware.Card) -> RunConfig:
    return replace(run, gpu=Sourced((card.instance,), _ORIGIN), gpu_memory=UNSET)


def _peak_where_it_fits(run: RunConfig, card: hardware.Card) -> Interval | None:
    answer = estimate(_there(run, card), with_suggestions=False)
    return answer.peak if answer.verdict == "fits" else None


def _offer(run: RunConfig, card: hardware.Card, peak: Interval) -> Offer:
    nodes = value_of(run.nodes) or 1
    there = _there(run, card)

    def fits(micro_batch: int) -> bool:
        changed = replace(there, micro_batch=Sourced(micro_batch, _ORIGIN))
        return estimate(changed, with_suggestions=False).verdict == "fits"

    return Offer(
        provider=card.provider,
        instance=card.instance,
        gpu=card.name,
        gpus=card.count,
        nodes=nodes,
        usd_hour=nodes * (card.usd_hour or 0.0),
        region=card.region,
        priced=card.priced,
        peak=peak,
        largest_micro_batch=largest(fits, value_of(run.micro_batch) or 1),
    )
