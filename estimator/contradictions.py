"""Words of a run that cannot all be true. The number stands for a run like it that can, so the answer names them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from estimator.models.facts import ModelFacts
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Sourced, Unknown

_T = TypeVar("_T")
_STRETCH = 4
"""Rotary positions are stretched to longer contexts, by four in published models; the table has what was trained."""
_SHARDS = ("zero1", "zero2", "zero3", "fsdp")


def contradictions(run: RunConfig, facts: ModelFacts | None) -> list[str]:
    """A sentence for each; of words that are written, never of assumed ones."""
    found = list(_of_ranks(run))
    return found + list(_of_model(run, facts)) if facts is not None else found


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
    longest = max(_written(run.seq_len) or 0, _written(run.max_context) or 0)
    stretch = 1 if facts.has_learned_positions else _STRETCH
    if facts.kind in ("decoder", "encoder") and facts.max_position and longest > stretch * facts.max_position:
        yield f"{longest} tokens are beyond the {facts.max_position} positions that the model has"


def _written(sourced: Sourced[_T]) -> _T | None:
    return None if isinstance(sourced.value, Unknown) else sourced.value


def _world(run: RunConfig) -> int | None:
    """All ranks, where somebody wrote how many GPUs there are; one node where nobody wrote how many."""
    gpus, nodes = _written(run.num_gpus), _written(run.nodes)
    if gpus is None or (nodes is None and run.nodes != UNSET):
        return None
    return gpus * (nodes or 1)
