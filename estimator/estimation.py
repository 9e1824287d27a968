"""One estimate: model, target, plausible readings, intervals, verdict, and what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from analyzer.errors import InputError
from estimator import hardware, inverse, solver
from estimator.balance import rest
from estimator.contradictions import contradictions, refuse_impossible
from estimator.idle import idle_words
from estimator.memory import candidates, runtime
from estimator.memory.interval import Computed, compute, highest, outlook
from estimator.models.choose import ModelChoice, choose_model
from estimator.models.known import taken_for
from estimator.report import Estimate, InputLine, Interval, Largest, ModelAnswer, TargetAnswer, Verdict
from estimator.room import reason, roomy_bytes
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Origin, Sourced, Unknown
from estimator.split import per_gpu
from estimator.units import GIB, MAX_MEMORY
from estimator.unknowns import unknown_lines
from estimator.verdict import is_hardly_enough, least_favourable, overall, verdict_for

_MAX_BYTES = MAX_MEMORY


def estimate(run: RunConfig, *, with_suggestions: bool = True) -> Estimate:
    """The peak of `run` on every target it may mean. Raises `InputError` for a target nobody sells, absurd sizes, and
    options of which no run can be."""
    run = per_gpu(_with_count(run))
    cards = targets(run)
    model = choose_model(run)
    computed = computed_peak(run, model, cards)
    reasons = tuple(
        item for item in (model.reason, _other_owner(model), *_target_reasons(run, cards, computed)) if item
    )
    least = least_bytes(run, model, cards) if computed is None else None
    if least is not None:
        reasons = (
            *reasons,
            f"at least {least / GIB:.2f} GiB for the parameters that are known, whatever the rest needs",
        )
    roomy = roomy_bytes(run, model, runtime_key(cards))
    answers = tuple(_answer(card, computed, run, least, roomy) for card in cards)
    reasons += () if _not_counted(run) else _cramped(run, model, cards, computed, answers)
    reasons += _hardly(computed, answers)
    found = contradictions(run, model, cards)
    refuse_impossible(run, found)
    reasons += tuple(map(str, found)) + (tuple(idle_words(run, computed.setup)) if computed else ())
    verdict = least_favourable([answer.verdict for answer in answers])
    if verdict == "exceeds" != overall([answer.verdict for answer in answers]):
        reasons += ("not every card that the name may mean is too small: the check and the gate say borderline",)
    result = Estimate(
        verdict=verdict,
        model=ModelAnswer(model.id, model.params, model.source),
        targets=answers,
        peak=computed.occupied if computed else None,
        allocated=computed.allocated if computed else None,
        reserved=computed.reserved if computed else None,
        moment=computed.moment.name if computed else None,
        terms=(*computed.moment.terms, *rest(computed)) if computed else (),
        timeline=computed.moments if computed else (),
        inputs=_inputs(run),
        unknowns=unknown_lines(run, candidates.choices(run, model.readings) if computed else {}),
        reasons=reasons,
    )
    if not with_suggestions or _not_counted(run):  # nobody can promise that a change fits beside what is not counted
        return result
    result = replace(result, largest=_largest(run, model, cards, computed))
    return solver.with_suggestions(run, result, solver.Assess(_glance, _look))


def _largest(
    run: RunConfig, model: ModelChoice, cards: tuple[hardware.Card, ...], computed: Computed | None
) -> tuple[Largest, ...]:
    """What would fit the least favourable target."""
    usable = [card.usable_bytes if card.is_supported else None for card in cards]
    known = [size for size in usable if size is not None]
    if computed is None or not known or len(known) < len(usable):
        return ()
    key = runtime_key(cards)
    return inverse.largest(
        run, computed.setup.facts, min(known),
        lambda changed: highest(candidates.choices(changed, model.readings), key),
    )  # fmt: skip


def _glance(run: RunConfig) -> tuple[int, bool] | None:
    cards, model = targets(run), choose_model(run)
    if not model.readings:
        return None
    point, high = outlook(candidates.choices(run, model.readings), runtime_key(cards))
    usable = [card.usable_bytes if card.is_supported else None for card in cards]
    least = min((item or 0 for item in usable), default=0)
    return point, high <= least and roomy_bytes(run, model, runtime_key(cards)) <= least


def _look(run: RunConfig) -> tuple[Interval, Verdict] | None:
    """Peak and overall verdict alone, for comparing runs; None where there is no number."""
    cards = targets(run)
    model = choose_model(run)
    computed = computed_peak(run, model, cards)
    if computed is None:
        return None
    usable = [card.usable_bytes if card.is_supported else None for card in cards]
    roomy = roomy_bytes(run, model, runtime_key(cards))
    return computed.occupied, least_favourable([verdict_for(computed.occupied, item, roomy) for item in usable])


def targets(run: RunConfig) -> tuple[hardware.Card, ...]:
    """The cards that the run's words mean; all of them where a word is ambiguous."""
    names = () if isinstance(run.gpu.value, Unknown) else run.gpu.value
    cards: list[hardware.Card] = []
    for name in names:
        cards += [card for card in _cards_called(name, has_size=run.gpu_memory.is_known) if card not in cards]
    found = tuple(cards)
    if not isinstance(run.gpu_memory.value, Unknown):
        found = hardware.with_memory(found, run.gpu_memory.value)
    return tuple(_beside_engine(card, run) for card in found)


def _beside_engine(card: hardware.Card, run: RunConfig) -> hardware.Card:
    """The card without the share that an inference engine on it takes (vLLM's ``gpu_memory_utilization`` is a share
    of all its memory, weights and context included)."""
    share = run.engine_share.value
    if isinstance(share, Unknown) or card.usable_bytes is None:
        return card
    return replace(card, usable_bytes=int(card.usable_bytes * (1 - share)))


def _cards_called(name: str, *, has_size: bool) -> tuple[hardware.Card, ...]:
    """A card nobody lists is a card all the same where its memory is given."""
    try:
        return hardware.find(name)
    except InputError:
        if not has_size:
            raise
        return (hardware.Card(name=name, architecture="", usable_bytes=None),)


def runtime_key(cards: tuple[hardware.Card, ...]) -> str:
    """Under what the table of driver contexts knows the first card."""
    return runtime.key_of(cards[0].name, cards[0].architecture) if cards else ""


def computed_peak(run: RunConfig, model: ModelChoice, cards: tuple[hardware.Card, ...]) -> Computed | None:
    """The intervals, or None where no model is known well enough."""
    if not model.readings:
        return None
    found = candidates.choices(run, model.readings)
    computed = compute(found, runtime_key(cards))
    if computed.occupied.high > _MAX_BYTES:
        raise InputError("the inputs multiply to more than 1 PiB: check micro_batch, seq_len and params")
    return computed


def least_bytes(run: RunConfig, model: ModelChoice, cards: tuple[hardware.Card, ...]) -> int | None:
    """The floor where there is no number: of a model of which only a part, or only the parameters, are known."""
    if model.least is None:
        return None
    found = candidates.choices(run, (model.least,))
    return compute(found, runtime_key(cards)).occupied.floor


def _cramped(
    run: RunConfig, model: ModelChoice, cards: tuple[hardware.Card, ...], computed: Computed | None,
    answers: tuple[TargetAnswer, ...],
) -> tuple[str, ...]:  # fmt: skip
    """Why a card that the interval fits on is not said to fit."""
    for answer in answers:
        usable = answer.usable_bytes
        if computed and answer.verdict == "borderline" and usable is not None and computed.occupied.high <= usable:
            return (reason(run, model, runtime_key(cards), usable, answer.name),)
    return ()


def _other_owner(model: ModelChoice) -> str:
    """That a listed model of another owner was taken for what the run names."""
    listed = taken_for(model.id) if model.id is not None and model.params is not None else None
    return f"{model.id} is not listed: taken for {listed}, of the same name" if listed is not None else ""


def _hardly(computed: Computed | None, answers: tuple[TargetAnswer, ...]) -> tuple[str, ...]:
    """The cards that are most likely too small."""
    names = [
        answer.name
        for answer in answers
        if computed and answer.verdict == "borderline" and is_hardly_enough(computed.occupied.low, answer.usable_bytes)
    ]
    text = "most likely too large for {}: all that is plausible is above it, and only the floor is not"
    return (text.format(" and ".join(dict.fromkeys(names))),) if names else ()


def _answer(
    card: hardware.Card, computed: Computed | None, run: RunConfig, least: int | None, roomy: int
) -> TargetAnswer:
    usable = card.usable_bytes if card.is_supported else None
    gpus = run.num_gpus.value
    count = gpus if not isinstance(gpus, Unknown) else card.count
    verdict = verdict_for(computed.occupied if computed else None, usable, roomy)
    if verdict == "fits" and _not_counted(run):
        verdict = "borderline"  # something else is on the card, and nobody knows how much
    if least is not None and usable is not None and least > usable:
        verdict = "exceeds"
    return TargetAnswer(card.label, count, usable, verdict)


def _not_counted(run: RunConfig) -> list[str]:
    """What else the program holds on the card, by what its recipe says."""
    return [reason for name, reason in run.not_understood if name == "not counted"]


def _with_count(run: RunConfig) -> RunConfig:
    """``8xH100`` means eight; an instance has so many, which counts where the run shards over what there is."""
    names = () if isinstance(run.gpu.value, Unknown) else run.gpu.value
    uses_all = run.splits_batch.value is True
    if len(names) != 1 or (run.num_gpus.is_known if uses_all else run.num_gpus != UNSET):
        return run
    count = hardware.count_in(names[0])
    uses_all |= run.sharding.is_known and run.sharding.value not in ("none", "ddp")
    if count is None or (hardware.is_instance(names[0]) and not uses_all):
        return run
    return replace(run, num_gpus=Sourced(count, Origin(f"{names[0]} has {count}")))


def _target_reasons(run: RunConfig, cards: tuple[hardware.Card, ...], computed: Computed | None) -> list[str]:
    others = [f"not counted: {reason}" for reason in _not_counted(run)]
    share = run.engine_share.value
    if cards and not isinstance(share, Unknown) and share > 0:
        others.append(f"an inference engine takes {share:.0%} of the card; what is usable is the rest")
    if not cards and computed is not None:
        return ["no GPU to compare with is known"]
    reasons = [f"{card.label} is not a GPU this estimate is for" for card in cards if not card.is_supported]
    gpus = run.num_gpus.value
    if not isinstance(gpus, Unknown):
        short = [card for card in cards if card.instance and card.is_stated and card.count < gpus]
        reasons += [f"{card.instance} has {card.count} GPUs, and the run uses {gpus} on each node" for card in short]
    sizeless = [card for card in cards if card.is_supported and card.usable_bytes is None]
    return reasons + others + [f"the memory of {card.label} is not known: give --gpu-memory" for card in sizeless]


def _inputs(run: RunConfig) -> tuple[InputLine, ...]:
    document: dict[str, Any] = run.to_document()
    known = {name: sourced for name, sourced in run.words().items() if sourced.is_known}
    return tuple(InputLine(name, document[name], sourced.describe()) for name, sourced in known.items())


def usable_gib(card: hardware.Card) -> float | None:
    """For tables."""
    return None if card.usable_bytes is None else round(card.usable_bytes / GIB, 2)
