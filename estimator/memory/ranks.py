"""Over which ranks a run spreads its weights, state, layers, experts and tokens."""

from __future__ import annotations

from dataclasses import replace

from estimator.memory.choice import Choice, Choices, choose, fixed, undecided
from estimator.models.facts import ModelFacts
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Sourced, Unknown

_USUAL_RANKS = 8
"""GPUs of one node: the likeliest, and the least that a sharded run of unknown size may count on."""
_MOST_RANKS = 1024
"""For the floor: nobody starts more from a text that does not say how many."""
_SHARDED = ("zero1", "zero2", "zero3", "fsdp")


def _degree(sourced: Sourced[int]) -> int:
    return 1 if isinstance(sourced.value, Unknown) else sourced.value


def ranks(run: RunConfig, world: int, facts: ModelFacts, *, is_training: bool) -> Choices:
    """What is divided over devices and how, and what the host holds."""
    tp, pp, cp = _degree(run.tp_degree), _degree(run.pp_degree), _degree(run.cp_degree)
    world = max(world, tp * pp * cp, _degree(run.sharding_degree))
    replicas = max(world // (tp * pp * cp), 1)
    shards = _degree(run.sharding_degree) if run.sharding_degree.is_known else replicas
    is_open = is_size_open(run)
    is_single = max(replicas, shards) == 1
    usual = "none" if is_single else "ddp"
    guess = fixed("none") if is_single and not is_open else undecided(usual, cheapest=("zero1", "zero2", "fsdp"))
    sharding = choose(run.sharding, guess, guess)
    return {
        "tp": fixed(tp),
        "pp": fixed(pp),
        "cp": fixed(cp),
        "sp": _sequence_parallel(run, tp),
        "replicas": fixed(replicas),
        "shards": _shards(run, shards, sharding.typical) if is_open else fixed(shards),
        "sharding": sharding,
        "grad_accum": choose(run.grad_accum, fixed(1), undecided(1, 2)),
        "ep": _expert_parallel(run, facts, replicas),
        "offload": _offload(run, is_training),
    }


def is_size_open(run: RunConfig) -> bool:
    """Whether nobody can say over how many ranks a run is spread: somebody wrote it and it cannot be read, or nobody
    did and the run shards."""
    if run.sharding_degree.is_known:
        return False
    is_unread = any(word != UNSET and not word.is_known for word in (run.num_gpus, run.nodes))
    if is_unread or run.num_gpus != UNSET or run.sharding_degree != UNSET:
        return is_unread
    return run.sharding.value in _SHARDED if run.sharding.is_known else run.sharding != UNSET


def _shards(run: RunConfig, least: int, sharding: str) -> Choice:
    """How many ranks share, where nobody says: what is plausible where that was read, else a node's GPUs or more."""
    gpus, nodes = _plausible(run.num_gpus), _plausible(run.nodes)
    if gpus or nodes:
        counts = sorted({max(least, least * one * other) for one in gpus or (1,) for other in nodes or (1,)})
        return Choice(counts[0], tuple(counts), (counts[-1],), is_open=True)
    if sharding not in _SHARDED:  # it may be, for the floor
        return Choice(least, (least,), (max(least, _MOST_RANKS),))
    if least > 1 and run.num_gpus != UNSET:
        return Choice(least, (2 * least, 4 * least), (max(least, _MOST_RANKS),), is_open=True)
    usual = _USUAL_RANKS * least  # on each node
    return Choice(usual, (usual // 2, 4 * usual), (max(usual, _MOST_RANKS),), is_open=True)


def _plausible(word: Sourced[int]) -> tuple[int, ...]:
    found = word.value.plausible if isinstance(word.value, Unknown) else ()
    return tuple(one for one in found if isinstance(one, int))


def _offload(run: RunConfig, is_training: bool) -> Choice:
    """``cpu`` alone is the optimizer's in DeepSpeed's habit; FSDP has one offload, of parameters and all that belongs
    to them; and where nothing is trained only the weights can be meant."""
    chosen = choose(run.offload, fixed("none"), undecided("none", cheapest=("optimizer", "both")))
    if chosen.typical != "optimizer":
        return chosen
    if not is_training:
        return fixed("params")
    if not run.sharding.is_known and run.sharding != UNSET:  # it may be FSDP
        return replace(chosen, cheapest=("both",))
    is_fsdp = run.sharding.is_known and run.sharding.value == "fsdp"
    return Choice("both", ("both", "optimizer"), ("both",)) if is_fsdp else chosen


def _expert_parallel(run: RunConfig, facts: ModelFacts, replicas: int) -> Choice:
    """Over how many ranks a layer's experts are spread. FSDP and ZeRO-3 spread every parameter over all ranks, so it
    changes nothing there; where nobody says it, it may be as many ranks as there are."""
    most = min(facts.experts, replicas)
    is_spread = run.sharding.is_known and run.sharding.value in ("fsdp", "zero3")
    if most < 2 or is_spread:
        return fixed(1)
    return fixed(min(_degree(run.ep_degree), most)) if run.ep_degree.is_known else Choice(1, (1,), (most,))


def _sequence_parallel(run: RunConfig, tp: int) -> Choice:
    """Over how many ranks norms and residual stream are spread: over those of the tensor parallelism where FSDP goes
    with it (torchtitan), in Megatron where it is asked to (``--sequence-parallel``), in transformers never."""
    if tp == 1 or run.sp_degree.is_known:
        return fixed(tp if _degree(run.sp_degree) > 1 else 1)
    is_titan = run.sharding.is_known and run.sharding.value == "fsdp"
    return Choice(tp, (tp,) if is_titan else (tp, 1), (tp,), is_even=not is_titan)
