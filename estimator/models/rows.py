"""The rows of the models table, and the facts that a row says."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from estimator.models.facts import ModelFacts, Recurrence
from estimator.tables import number, rows

_REQUIRED = ("hf_id", "family", "params_total", "layers", "hidden", "heads", "vocab", "source")
# Words in a checkpoint's name that say how it was trained or stored, never what shape it has.
_TRAINING_WORDS = frozenset(
    {"instruct", "chat", "hf", "base", "it", "sft", "dpo", "rlhf", "gptq", "awq", "fp8", "int4", "int8", "bf16", "gguf"}
    | {"bnb", "4bit", "8bit", "meta", "reasoning", "preview"}
)


def all_rows() -> tuple[dict[str, str], ...]:
    """Every row of the table."""
    return rows("models", _REQUIRED)


def row_of(name: str) -> dict[str, str] | None:
    """The row of a public id; of the same name without its organisation; of the same model trained otherwise."""
    exact, short, stem = _index()
    key = name.strip().lower().rstrip("/")
    return exact.get(key) or short.get(key.rsplit("/", 1)[-1]) or stem.get(_stem(key))


def _stem(name: str) -> str:
    words = re.split(r"[-_.\s]+", name.lower().rsplit("/", 1)[-1])
    kept = [word for word in words if word and word not in _TRAINING_WORDS and not re.fullmatch(r"v\d+|\d{4}", word)]
    return "-".join(kept)


_Table = dict[str, dict[str, str]]


@lru_cache(maxsize=1)
def _index() -> tuple[_Table, _Table, _Table]:
    exact: _Table = {}
    short: _Table = {}
    stem: _Table = {}
    for row in all_rows():
        key = row["hf_id"].lower()
        exact[key] = row
        short.setdefault(key.rsplit("/", 1)[-1], row)
        stem.setdefault(_stem(key), row)
        if key.startswith("timm/"):  # timm's own name is the id without the tag of the weights
            short.setdefault(key.removeprefix("timm/").split(".")[0], row)
    return exact, short, stem


_PLAIN = {
    "norms": "2",
    "qk_norm": "",
    "is_parallel": "",
    "stored_as": "",
    "is_qkv_fused": "",
    "keeps_fused": "",
    "caps_scores": "",
    "learned_positions": "",
    "source_tokens": "",
    "biases_scores": "",
    "wide_norm": "",
    "wide_residual": "",
    "layer_scale": "",
    "relative_span": "",
}
"""A family without a row of its own."""


@lru_cache(maxsize=1)
def _families() -> _Table:
    return {
        row["family"]: row
        for row in rows(
            "families",
            (
                "family",
                "kind",
                "norms",
                "stored_as",
                "keeps_fused",
                "caps_scores",
                "learned_positions",
                "source_tokens",
                "wide_norm",
                "wide_residual",
                "layer_scale",
                "relative_span",
            ),
        )
    }


def kind_of(row: dict[str, str]) -> str:
    family = _families().get(row["family"])
    if family is not None:
        return family["kind"]
    attention = row["attention"]
    is_hybrid = ("linear_attention" in attention and "linear=" not in attention) or "sparse" in attention
    is_hybrid |= "MLA" in attention and "compress" in attention
    is_seeing = row["family"].endswith(("ForConditionalGeneration", "CLIPModel", "SiglipModel"))
    if is_seeing and row["vision"] and row["vocab"] and not is_hybrid and not row["enc_dec"]:
        return "decoder" if row["family"].endswith("Generation") else "encoder"
    is_text = row["family"].endswith("ForCausalLM") and (not row["vision"] or "linear=" in attention)
    is_text &= not row["enc_dec"]
    return "decoder" if is_text and not is_hybrid else "other"


def _first_int(text: str) -> int:
    match = re.search(r"\d+", text)
    return int(match[0]) if match else 0


def facts_of(row: dict[str, str]) -> ModelFacts | None:
    """None for a family without a layer program, or a row that does not say its shape."""
    kind = kind_of(row)
    return None if kind == "other" else facts_as(row, kind)


def facts_as(row: dict[str, str], kind: str) -> ModelFacts | None:
    layers = sum(map(int, re.findall(r"\d+", row["layers"]))) if kind == "dit" else _depth(row)
    hidden, heads = _first_int(row["hidden"]), _first_int(row["heads"])
    if "linear=" in row["attention"]:
        heads = heads or 1  # of a model that has no attention at all
    if not (layers and hidden and heads):
        return None
    family = _families().get(row["family"], _PLAIN)
    active = number(row, "params_active")
    return _with_experts(_with_cache(row["attention"], ModelFacts(
        id=row["hf_id"], kind=kind, params=int(number(row, "params_total") or 0), layers=layers, hidden=hidden,
        heads=heads, kv_heads=_first_int(row["kv_heads"]) or heads,
        head_dim=_first_int(row["head_dim"]) or hidden // heads,
        ffn=_ffn(row, hidden), vocab=int(number(row, "vocab") or 0),
        source=f"models table: {row['source'][:80]}", params_active=int(active) if active else None,
        experts=int(number(row, "n_experts") or 0), experts_per_token=int(number(row, "experts_per_token") or 0),
        moe_ffn=_first_int(row["moe_ffn"]) or (int(number(row, "ffn_intermediate") or 0) if row["n_experts"] else 0),
        stored_as=family["stored_as"] or None, is_tied=row["tie_word_embeddings"] == "True",
        is_gated=row["gated_mlp"] == "True", is_rms_norm=row["norm"] == "RMSNorm", activation=row["activation"],
        is_parallel=family["is_parallel"] == "True", has_dropout=row["uses_dropout"] not in ("", "none"),
        norms=int(family["norms"]), has_qk_norm=family["qk_norm"] == "True",
        is_qkv_fused=family["is_qkv_fused"] == "True", keeps_fused=family["keeps_fused"] == "True",
        caps_scores=family["caps_scores"] == "True", has_learned_positions=bool(family["learned_positions"]),
        max_position=_positions(row, family), patch=_setting(row, "patch"),
        image=_setting(row, "image"), decoder_layers=_second_stack(row) if kind == "encdec" else 0,
        source_tokens=_first_int(family["source_tokens"]), biases_scores=family["biases_scores"] == "True",
        has_wide_norm=family["wide_norm"] == "True", has_wide_residual=family["wide_residual"] == "True",
        has_layer_scale=family["layer_scale"] == "True", relative_span=_first_int(family["relative_span"]),
        tower=_tower(row) if kind in ("decoder", "encoder") else None,
        drops_ffn=kind == "encdec" and bool(re.search("dropout_rate|activation_dropout", row["uses_dropout"])),
    )))  # fmt: skip


def _with_experts(facts: ModelFacts) -> ModelFacts:
    """How many layers have experts, and how wide those are that every token passes. Both follow from the counts: what
    is inactive are routed experts, and what is neither attention, routed, dense nor embedding is shared."""
    if not (facts.experts and facts.moe_ffn and facts.params_active) or facts.parts or not facts.is_gated:
        return facts
    matrix = 3 * facts.hidden
    idle = matrix * facts.moe_ffn * (facts.experts - facts.experts_per_token)
    sparse = round((facts.params - facts.params_active) / idle) if idle > 0 else 0
    if not 0 < sparse <= facts.layers:
        return facts
    found = replace(facts, dense_layers=facts.layers - sparse)
    rest = found.block_params - found.expert_params - found.layers * found.attention_params
    rest -= found.dense_layers * matrix * found.ffn + sparse * found.experts * found.hidden
    rest -= found.tower.params if found.tower else 0
    width = rest / (matrix * sparse)
    return replace(found, shared_ffn=64 * round(width / 64) if width > _SOME_SHARE * found.moe_ffn else 0)


_SOME_SHARE = 0.2
"""Of one expert's width: what is less are norms, biases and gates."""


def _positions(row: dict[str, str], family: dict[str, str]) -> int | None:
    """The longest sample; a table may begin with entries for padding (``from 2``)."""
    return max(int(number(row, "max_position") or 0) - _first_int(family["learned_positions"]), 0) or None


_USUAL_TOWER_SIDE = 448  # pixels, where a processor keeps the size of each picture (Qwen-VL)


def _tower(row: dict[str, str]) -> ModelFacts | None:
    """The image encoder that the column ``vision`` describes: a ViT, with heads of 64 where nothing else is said."""
    patch, layers, hidden = (_setting(row, name) for name in ("patch", "layers", "hidden"))
    if not (patch and layers and hidden):
        return None
    ffn, heads = _setting(row, "ffn") or 4 * hidden, _setting(row, "heads") or max(hidden // 64, 1)
    params = layers * (4 * hidden * hidden + 2 * hidden * ffn)
    return ModelFacts(
        id=None, kind="vit", params=params, layers=layers, hidden=hidden, heads=heads, kv_heads=heads,
        head_dim=hidden // heads, ffn=ffn, vocab=0, source="vision column", is_gated=False, is_rms_norm=False,
        activation="gelu", patch=patch, image=_setting(row, "image") or _USUAL_TOWER_SIDE,
    )  # fmt: skip


def _ffn(row: dict[str, str], hidden: int) -> int:
    """Feed-forward width; four times the hidden one where nothing says it, none of a model without such parts."""
    is_bare = "linear=" in row["attention"] and row["ffn_intermediate"] in ("", "0")
    return 0 if is_bare and not row["moe_ffn"] else int(number(row, "ffn_intermediate") or 4 * hidden)


def _with_cache(attention: str, facts: ModelFacts) -> ModelFacts:
    """What the attention column says about the cache: layers by kind, the window, the latent's widths."""

    def said(name: str) -> int:
        match = re.search(rf"\b{name}=(\d+)", attention)
        return int(match[1]) if match else 0

    kinds = {name: int(count) for name, count in re.findall(r"(\w+_attention)x(\d+)", attention)}
    window = said("sliding_window")
    is_hybrid = "linear_attention" in kinds or (window > 0 and "sliding_attention" in kinds)
    parts, recurrence = _recurrent(attention, facts)
    both = kinds.get("parallel_attention", 0)
    return replace(
        facts,
        parts=parts,
        recurrence=recurrence,
        cached_layers=kinds.get("full_attention", 0) + both if is_hybrid or both else facts.decoder_layers,
        window_layers=kinds.get("sliding_attention", 0) if window else 0,
        window=window,
        latent=said("kv_lora") + said("qk_rope") if said("kv_lora") else 0,
        plain_dim=said("qk_nope"),
        query_latent=said("q_lora"),
        value_dim=said("v"),
    )


_PARTS = {"linear_attention": "recurrence", "full_attention": "attention", "parallel_attention": "both"}


def _recurrent(attention: str, facts: ModelFacts) -> tuple[tuple[tuple[str, int], ...], Recurrence | None]:
    """The parts of a hybrid: ``layers:linear_attentionx28,full_attentionx4 linear=mamba2 inner=8192 state=128``. Where
    feed-forward parts are not counted, each layer has one."""
    kind = re.search(r"\blinear=(\w+)", attention)
    if kind is None:
        return (), None

    def said(name: str, otherwise: int = 0) -> int:
        match = re.search(rf"\b{name}=(\d+)", attention)
        return int(match[1]) if match else otherwise

    counted = re.findall(r"(\w+_attention|mlp|moe)x(\d+)", attention)
    parts = [(_PARTS.get(name, name), int(count)) for name, count in counted]
    if facts.ffn and not any(name in ("mlp", "moe") for name, _ in parts):
        parts.append(("moe" if facts.experts else "mlp", facts.layers))
    found = Recurrence(kind[1], said("inner"), said("state"), said("groups", 1), said("ssm_heads"), said("dt_rank"),
                       said("keys"))  # fmt: skip
    return tuple(parts), found


def _depth(row: dict[str, str]) -> int:
    """Layers of a stack; of both stacks where there is an encoder beside the decoder."""
    stacks = [int(number) for number in re.findall(r"(?:enc|dec)_layers=(\d+)", row["enc_dec"])]
    return sum(stacks) if len(stacks) == 2 else _first_int(row["layers"])


def _second_stack(row: dict[str, str]) -> int:
    match = re.search(r"dec_layers=(\d+)", row["enc_dec"])
    return int(match[1]) if match else 0


def _setting(row: dict[str, str], name: str) -> int:
    """A column entry such as ``patch=16``; else what the publisher's id says (``…-patch16-224``)."""
    if match := re.search(rf"\b{name}=(\d+)", row["vision"]):
        return int(match[1])
    said = re.search(r"patch(?P<patch>\d+)[-_](?P<image>\d+)\b", row["hf_id"])
    return int(said[name]) if said and name in said.groupdict() else 0
