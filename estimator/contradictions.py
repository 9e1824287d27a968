"""Words of a run that cannot all be true. The number stands for a run like it that can, so the answer names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeVar

from estimator.hardware import Card
from estimator.models.choose import ModelChoice
from estimator.models.facts import ModelFacts, find_model
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Sourced, Unknown
from estimator.tables import rows

_T = TypeVar("_T")
_STRETCH = 4
"""Rotary positions are stretched to longer contexts, by four in published models; the table has what was trained."""
_SHARDS = ("zero1", "zero2", "zero3", "fsdp")
_TOO_FAR = 2
"""A given size and a listed one that differ by more are of different models; names and their sizes round."""
_BF16 = ("amp-bf16", "pure-bf16", "bf16-master")


def contradictions(run: RunConfig, model: ModelChoice, cards: Sequence[Card] = ()) -> list[str]:
    """A sentence for each; of words that are written, never of assumed ones."""
    found = [*_of_ranks(run), *_of_training(run), *_of_cards(run, cards)]
    return [*found, *_of_size(run, model), *(_of_model(run, model.readings[0]) if model.readings else ())]


def _of_training(run: RunConfig) -> Iterator[str]:
    """How a run trains."""
    method, task = _written(run.method), _written(run.task)
    stored, steps = _written(run.quantization), _written(run.grad_accum) or 1
    if task in ("infer", "generate"):
        asked = (("optimizer", run.optimizer), ("checkpointing", run.grad_checkpointing), ("method", run.method))
        for name, word in asked:
            if _written(word) not in (None, "none"):
                yield f"{name} {_written(word)} is given, and nothing is trained"
    elif method == "full":
        if stored is not None and stored != "fp8":
            yield f"weights stored as {stored} are frozen, and the method is full: no run is both, the number is rough"
        has_rank = run.lora_rank.is_known and run.optimizer.value != "galore"  # its projections have that rank
        if has_rank or run.lora_targets.is_known or _written(run.dora):
            yield "adapters are described, and the method is full: they are not counted"
    if _written(run.optimizer_in_backward) and steps > 1:
        yield f"an optimizer that steps inside backward cannot accumulate over {steps} micro-batches"
    for target in _written(run.lora_targets) or ():
        words = {part for part in re.split(r"[^a-z0-9_]+", target.lower().replace("-", "_")) if part}
        if words and not any(word in _modules() or word.startswith("all_") for word in words):
            yield f"{target[:40]!r} is no module name of a transformer that we know"


@cache
def _modules() -> frozenset[str]:
    """What published transformers call their linear layers, and the parts these are in."""
    return frozenset(row["name"] for row in rows("modules"))


def _of_cards(run: RunConfig, cards: Sequence[Card]) -> Iterator[str]:
    """What a card computes in."""
    precision = _written(run.precision)
    is_trained = _written(run.task) in (None, "train") and not run.max_context.is_known  # else fp8 may be storage alone
    for card in cards:
        if precision == "fp8" and not is_trained:
            continue
        if (precision in _BF16 and not card.has_bf16) or (precision == "fp8" and not card.has_fp8):
            yield f"{card.label} has no arithmetic in {'fp8' if precision == 'fp8' else 'bf16'}"


def _of_size(run: RunConfig, model: ModelChoice) -> Iterator[str]:
    """A size beside the name of a model that has another one."""
    given = _written(run.params)
    listed = find_model(model.id) if model.id and given else None
    if given and listed is not None and not 1 / _TOO_FAR < given / listed.params < _TOO_FAR:
        yield f"{model.id} has {listed.params / 1e9:.3g}B parameters; {given / 1e9:.3g}B are given, and counted"


def _of_ranks(run: RunConfig) -> Iterator[str]:
    degrees = {"tensor": run.tp_degree, "pipeline": run.pp_degree, "context": run.cp_degree}
    known = {name: value for name, sourced in degrees.items() if (value := _written(sourced)) and value > 1}
    world = _world(run)
    if world is None:
        return
    ways = 1
    for degree in known.values():
        ways *= degree
    if world % ways:
        said = " x ".join(f"{degree} ({name} parallel)" for name, degree in known.items())
        yield f"{world} GPUs are not divisible by {said}"
        return
    sharding, replicas = _written(run.sharding), world // ways
    if sharding in _SHARDS and replicas == 1 and run.sharding_degree == UNSET:
        yield f"{sharding} on one {'GPU' if ways == 1 else 'rank'} shards nothing"
    shards = _written(run.sharding_degree)
    if shards and shards > 1 and replicas % shards:
        yield f"{replicas} data-parallel ranks are not divisible by a sharding degree of {shards}"


def _of_model(run: RunConfig, facts: ModelFacts) -> Iterator[str]:
    tensor, pipeline = _written(run.tp_degree), _written(run.pp_degree)
    if tensor and facts.kind in ("decoder", "encoder") and not facts.is_guessed and facts.heads % tensor:
        yield f"the model's {facts.heads} attention heads are not divisible by {tensor} (tensor parallel)"
    if pipeline and pipeline > facts.layers and not facts.is_guessed:
        yield f"the model's {facts.layers} layers are fewer than {pipeline} pipeline stages"
    experts = _written(run.ep_degree)
    if experts and experts > 1 and not facts.experts and not facts.is_guessed:
        yield f"the model has no experts to spread over {experts} ranks"
    if facts.image_net is not None and run.seq_len.is_known:
        yield "an image network reads no sequence: its length is not counted"
    longest, most = max(_written(run.seq_len) or 0, _written(run.max_context) or 0), longest_of(facts)
    if most is not None and longest > most:
        yield f"{longest} tokens are beyond the {facts.max_position} positions that the model has"


def longest_of(facts: ModelFacts) -> int | None:
    """The most tokens that the model can read; None where nothing says."""
    if facts.kind not in ("decoder", "encoder") or not facts.max_position:
        return None
    return facts.max_position * (1 if facts.has_learned_positions else _STRETCH)


def _written(sourced: Sourced[_T]) -> _T | None:
    return None if isinstance(sourced.value, Unknown) else sourced.value


def _world(run: RunConfig) -> int | None:
    """All ranks, where somebody wrote how many GPUs there are; one node where nobody wrote how many."""
    gpus, nodes = _written(run.num_gpus), _written(run.nodes)
    if gpus is None or (nodes is None and run.nodes != UNSET):
        return None
    return gpus * (nodes or 1)
