"""Models that nobody knows, by what they resemble: shapes of a run config, decoders of the size, kin of a family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from estimator.models.facts import ModelFacts
from estimator.models.rows import all_rows, facts_as, facts_of, row_of

_KIN = 6.0
"""How many times larger or smaller a model of the same publisher may be to tell more than a stranger of the size."""


def decoders_near(params: int, limit: int = 8, publisher: str = "") -> list[ModelFacts]:
    """Dense public decoders closest in size, scaled to `params`: what a model of that size plausibly looks like. First
    those of the same publisher, whose models share vocabulary and proportions. Of no parameters there is none."""
    if params <= 0:
        return []

    def strangeness(facts: ModelFacts) -> tuple[bool, float]:
        ratio = max(facts.params / params, params / facts.params)
        is_kin = bool(publisher) and (facts.id or "").lower().startswith(f"{publisher}/") and ratio < _KIN
        return not is_kin, ratio

    shapes: dict[tuple[int, int, int, int], ModelFacts] = {}
    for facts in sorted(_dense_decoders(), key=strangeness):
        shapes.setdefault((facts.layers, facts.hidden, facts.ffn, facts.vocab), facts)
    return [_scaled(facts, params) for facts in list(shapes.values())[:limit]]


@lru_cache(maxsize=1)
def _dense_decoders() -> tuple[ModelFacts, ...]:
    """Built once: the solver asks for them at every change that it tries."""
    known = [facts for row in all_rows() if (facts := facts_of(row)) is not None]
    plain = (facts for facts in known if facts.kind == "decoder" and not (facts.parts or facts.tower))
    return tuple(facts for facts in plain if not facts.experts)


def transformers_near(params: int) -> list[ModelFacts]:
    """What a diffusion transformer of that size plausibly looks like: blocks of a decoder, without a vocabulary."""
    return [replace(facts, kind="dit", vocab=0, is_gated=False) for facts in decoders_near(params, limit=4)]


def rough_model(name: str) -> ModelFacts | None:
    """A listed model whose layers differ from a program's (latent or linear attention, cross attention, a vision tower
    beside them), counted as if they did not: `is_guessed`, so that nobody takes it for more."""
    row = row_of(name)
    if row is None:
        return None
    kind = "dit" if "diffus" in row["source"] else "decoder" if row["vocab"] else "encoder"
    facts = facts_as(row, kind)
    if facts is None:
        return None
    return replace(facts, is_guessed=True, source=f"{facts.source}; its layers only resemble those of the program")


def from_arch(arch: Mapping[str, int | bool], params: int | None, name: str | None) -> ModelFacts | None:
    """Facts spelled out by a run config; None when layers and hidden width are not both there."""
    layers, hidden = int(arch.get("layers", 0)), int(arch.get("hidden", 0))
    if not layers or not hidden:
        return None
    heads = int(arch.get("heads", max(hidden // 128, 1)))
    ffn, vocab = int(arch.get("ffn", 4 * hidden)), int(arch.get("vocab", 50257))
    head_dim = int(arch.get("head_dim", max(hidden // heads, 1)))
    experts = int(arch.get("experts", 0))
    is_gated = _looks_gated(layers, hidden, ffn, vocab, params)
    counted = _count(layers, hidden, ffn, vocab, is_gated, bool(arch.get("tied_embeddings", False)))
    return ModelFacts(
        id=name, kind="decoder", params=params or counted, layers=layers, hidden=hidden, heads=heads,
        kv_heads=int(arch.get("kv_heads", heads)), head_dim=head_dim, ffn=ffn, vocab=vocab, source="run config (arch)",
        experts=experts, experts_per_token=int(arch.get("experts_per_token", 0)), moe_ffn=int(arch.get("moe_ffn", 0)),
        is_tied=bool(arch.get("tied_embeddings", False)), is_gated=is_gated, is_rms_norm=is_gated,
        activation="silu" if is_gated else "gelu", is_guessed=params is None,
        max_position=int(arch.get("max_position", 0)) or None,
    )  # fmt: skip


def _looks_gated(layers: int, hidden: int, ffn: int, vocab: int, params: int | None) -> bool:
    if params is None:
        return ffn < 4 * hidden
    options = {is_gated: _count(layers, hidden, ffn, vocab, is_gated, False) for is_gated in (True, False)}
    return min(options, key=lambda is_gated: abs(options[is_gated] - params))


def _count(layers: int, hidden: int, ffn: int, vocab: int, is_gated: bool, is_tied: bool) -> int:
    per_layer = 4 * hidden * hidden + (3 if is_gated else 2) * hidden * ffn
    return layers * per_layer + vocab * hidden * (1 if is_tied else 2)


def _scaled(facts: ModelFacts, params: int) -> ModelFacts:
    """The same proportions at another size: depth takes up the difference."""
    per_layer = max(facts.layer_params, 1)
    layers = max(round((params - facts.embedding_params) / per_layer), 1)
    return replace(
        facts, id=None, params=params, layers=layers, is_guessed=True, source=f"shape like {facts.id}",
        cached_layers=0, window_layers=0, max_position=None, has_learned_positions=False,
    )  # fmt: skip
