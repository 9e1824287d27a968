"""What is known about a model: the row of a public id, or shapes that a run config spells out."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from estimator.models import images, nets, pixels
from estimator.models.local import NOTHING, LocalNet, Pass
from estimator.models.nets import TracedNet
from estimator.tables import number, rows

_REQUIRED = ("hf_id", "family", "params_total", "layers", "hidden", "heads", "vocab", "source")
# Words in a checkpoint's name that say how it was trained or stored, never what shape it has.
_TRAINING_WORDS = frozenset(
    {"instruct", "chat", "hf", "base", "it", "sft", "dpo", "rlhf", "gptq", "awq", "fp8", "int4", "int8", "bf16", "gguf"}
    | {"bnb", "4bit", "8bit", "meta", "reasoning", "preview"}
)


_STORAGE_WORDS = {"awq": "int4", "gptq": "int4", "int4": "int4", "4bit": "int4", "bnb": "nf4", "fp8": "fp8",
                  "int8": "int8", "8bit": "int8"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recurrence:
    """What stands where other layers have attention: `kind` names its program in `estimator.memory.recurrent`."""

    kind: str
    inner: int = 0  # width of what is scanned; of values in a delta rule
    state: int = 0  # numbers per channel
    groups: int = 1  # that share B and C
    heads: int = 0
    rank: int = 0  # of Mamba's time step
    keys: int = 0  # width of keys in a delta rule


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Shape and size of one model. Counts are of the whole model; widths are of one layer."""

    id: str | None
    kind: str
    params: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    source: str
    params_active: int | None = None
    experts: int = 0
    experts_per_token: int = 0
    moe_ffn: int = 0
    is_tied: bool = False
    is_gated: bool = True
    is_rms_norm: bool = True
    is_parallel: bool = False
    activation: str = "silu"
    has_dropout: bool = False
    norms: int = 2
    has_qk_norm: bool = False
    is_qkv_fused: bool = False  # one matmul for queries, keys and values
    caps_scores: bool = False  # a tanh bounds attention scores and logits (Gemma 2)
    keeps_fused: bool = False  # rotated queries and keys are new tensors, and the values a view that keeps all three
    max_position: int | None = None  # tokens of one sample
    has_learned_positions: bool = False  # a table of them, which nothing stretches
    patch: int = 0
    image: int = 0
    is_guessed: bool = False
    stored_as: str | None = None  # the quantisation its published weights have
    image_net: images.AnyNet | None = None  # a network that reads pictures or sound, counted map by map or traced
    cached_layers: int = 0  # that keep every token's keys and values; 0: all of them
    window_layers: int = 0  # that need those of the last `window` tokens alone
    window: int = 0
    latent: int = 0  # width of a token's cache entry in latent attention (DeepSeek)
    plain_dim: int = 0  # of one head's keys in latent attention, without the part that is rotated
    query_latent: int = 0  # width that queries are compressed to (DeepSeek)
    value_dim: int = 0  # of one head's values, where it differs from the keys'
    pixel_net: pixels.PixelNet | None = None  # a diffusion network, counted by latent positions
    local: Pass | None = None  # a network of the repository, and what one sample's forward pass keeps of it
    frozen: int = 0  # parameters that need no gradient
    decoder_layers: int = 0  # of the `layers`, where an encoder stands beside a decoder that attends to it
    source_tokens: int = 0  # that the encoder always reads (Whisper)
    biases_scores: bool = False  # a learned bias per head and pair of tokens (T5)
    drops_ffn: bool = False  # dropout between the activation and the second matmul
    has_wide_norm: bool = False  # RMSNorm multiplies by its weight in fp32 (Gemma, Qwen3-Next, Nemotron-H)
    has_wide_residual: bool = False  # what layers add to is fp32 whatever they compute in (Mamba's residual_in_fp32)
    has_layer_scale: bool = False  # a factor per channel behind each part (DINOv2)
    relative_span: int = 0  # positions that queries and keys are compared with beside each other (DeBERTa)
    tower: ModelFacts | None = None  # an encoder of images in front of a decoder, or beside a text encoder
    dense_layers: int = 0  # that have no experts, of a model whose others do
    shared_ffn: int = 0  # width of the experts that every token passes, beside those it is routed to
    is_headless: bool = False  # a reward model or classifier made of a decoder: its head gives one number
    parts: tuple[tuple[str, int], ...] = ()  # of a hybrid: attention, recurrence, both, mlp, moe, and how many of each
    recurrence: Recurrence | None = None

    def __hash__(self) -> int:
        """Over what tells models apart: readings are looked up by it many thousand times per suggestion."""
        return hash((self.id, self.params, self.layers, self.hidden, self.ffn, self.vocab, self.local))

    @property
    def has_head(self) -> bool:
        """Whether a matrix makes logits over the vocabulary."""
        return self.kind in ("decoder", "encdec") and not self.is_headless

    @property
    def has_attention(self) -> bool:
        """Whether some of its layers attend: not of a model that only scans."""
        return self.kind != "image" and (not self.parts or any(part in ("attention", "both") for part, _ in self.parts))

    @property
    def q_width(self) -> int:
        """Width of the queries of one token."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of the keys (and of the values) of one token."""
        return self.kv_heads * self.head_dim

    @property
    def value_width(self) -> int:
        """Width of the values of one token."""
        return self.kv_heads * (self.value_dim or self.head_dim)

    @property
    def embedding_params(self) -> int:
        """Token embedding, and the head where it is a matrix of its own."""
        copies = 1 if self.is_tied or not self.has_head else 2
        return min(self.vocab * self.hidden * copies, self.params)

    @property
    def block_params(self) -> int:
        """Everything but embedding and head: what quantisation, pipeline stages and FSDP units divide."""
        return max(self.params - self.embedding_params, 0)

    @property
    def expert_params(self) -> int:
        """Parameters of all routed experts."""
        matrices = 3 if self.is_gated else 2
        count = (self.layers - self.dense_layers) * self.experts
        return min(count * matrices * self.hidden * self.moe_ffn, self.block_params)

    @property
    def active_ffn(self) -> float:
        """Feed-forward width that one token passes, in an average layer."""
        if not self.experts or not self.moe_ffn:
            return self.ffn
        each = self.experts_per_token * self.moe_ffn + self.shared_ffn
        return each + (self.ffn - each) * self.dense_layers / self.layers

    @property
    def attention_params(self) -> int:
        """Weights of one layer's attention."""
        h, heads = self.hidden, self.heads
        if not self.latent:
            return 2 * h * (self.q_width + self.kv_width)
        rotated = self.head_dim - self.plain_dim
        queries = (h + self.q_width) * self.query_latent if self.query_latent else h * self.q_width
        values = heads * (self.value_dim or self.head_dim)
        return queries + h * self.latent + (self.latent - rotated) * (heads * self.plain_dim + values) + h * values

    @property
    def without_head(self) -> ModelFacts:
        """The same layers under a head of one number."""
        if not self.has_head:
            return self
        return replace(self, params=self.params - (0 if self.is_tied else self.vocab * self.hidden), is_headless=True)

    @property
    def layer_params(self) -> int:
        """Parameters of one layer."""
        return self.block_params // max(self.layers, 1)


@lru_cache(maxsize=64)
def find_model(name: str) -> ModelFacts | None:
    """The facts of a public id; of the same name without its organisation; of the same model trained otherwise."""
    exact, short, stem = _index()
    key = name.strip().lower().rstrip("/")
    row = exact.get(key) or short.get(key.rsplit("/", 1)[-1]) or stem.get(_stem(key))
    if row is None:
        return None
    facts = _facts(row)
    if facts is None:
        return None
    if row["hf_id"].lower() != key:
        facts = replace(facts, source=f"{facts.source}; read as {row['hf_id']}")
    return replace(facts, stored_as=_storage_of(key) or facts.stored_as)


_UNITS = 16  # that sharding gathers a traced network in: nothing says how somebody wraps it


def find_image_net(name: str) -> ModelFacts | None:
    """The likeliest of `find_image_nets`."""
    return next(iter(find_image_nets(name)), None)


def find_image_nets(name: str) -> list[ModelFacts]:
    """The facts of a network of pictures or sound that an id names: several where it is trained whole or in part."""
    found = []
    for net in images.readings(name):
        cost = images.cost(net, images.USUAL_SIDE, images.USUAL_SIDE, images.classes_of(net)[0])
        found.append(ModelFacts(
            id=name, kind="image", params=cost.params, layers=cost.blocks or _UNITS, hidden=1, heads=1, kv_heads=1,
            head_dim=1, ffn=1, vocab=0, source=images.describe(net), image_net=net, is_guessed=images.is_rough(net),
            frozen=cost.params - cost.trained if isinstance(net, TracedNet) else 0,
        ))  # fmt: skip
    return found


def find_pixel_net(name: str) -> ModelFacts | None:
    """The facts of a diffusion network that an id names."""
    net = pixels.find(name)
    if net is None:
        return None
    return ModelFacts(
        id=name, kind="dit", params=net.params, layers=net.layers, hidden=net.hidden, heads=1, kv_heads=1,
        head_dim=net.hidden, ffn=4 * net.hidden, vocab=0, source=f"traced: {net.source}", is_gated=False,
        pixel_net=net,
    )  # fmt: skip


def of_network(net: LocalNet, source: str) -> list[ModelFacts]:
    """The facts of a network of the repository for each input that fits; one without a forward pass if none does."""
    whole = ModelFacts(
        id=None, kind="local", params=net.params, layers=max(net.layers, 1), hidden=1, heads=1, kv_heads=1, head_dim=1,
        ffn=1, vocab=0, source=source, frozen=net.params - net.trained,
        local=NOTHING,
    )  # fmt: skip
    found = [replace(whole, local=each) for each in net.passes] or [whole]
    return found + [each for part in net.parts for each in of_network(part, source)]


def _storage_of(name: str) -> str | None:
    """Checkpoints say in their id how they are stored; the weights are not loaded as anything else."""
    words = re.split(r"[-_./\s]+", name)
    return next((_STORAGE_WORDS[word] for word in words if word in _STORAGE_WORDS), None)


def is_listed(name: str) -> bool:
    """Whether the table has a row for `name`, even one of a family that has no layer program."""
    exact, short, stem = _index()
    key = name.strip().lower()
    return key in exact or key.rsplit("/", 1)[-1] in short or _stem(key) in stem


def params_of(name: str) -> int | None:
    """The parameter count of a listed model of any family."""
    exact, short, stem = _index()
    key = name.strip().lower()
    row = exact.get(key) or short.get(key.rsplit("/", 1)[-1]) or stem.get(_stem(key))
    return int(number(row, "params_total") or 0) or None if row else None


def listed_models() -> list[dict[str, Any]]:
    """Every row, for listing; behind them the networks that were traced."""
    found = [
        {
            "id": row["hf_id"],
            "params": int(number(row, "params_total") or 0),
            "family": row["family"],
            "kind": _kind(row),
        }
        for row in rows("models", _REQUIRED)
    ]
    for each in found:
        if each["kind"] == "other" and images.readings(str(each["id"])):
            each["kind"] = "image"
    traced = {net.name: net for net in reversed(nets.every())}
    known = {each["id"] for each in found}
    for name, net in sorted(traced.items()):
        if name not in known:
            found.append({"id": name, "params": net.params, "family": net.library, "kind": "image"})
    return found


def nearest_models(name: str, limit: int = 3) -> list[str]:
    """Listed ids that look like `name`."""
    organisation = name.lower().split("/")[0]
    ids = sorted(
        (row["hf_id"] for row in rows("models", _REQUIRED)), key=lambda one: one.lower().startswith(organisation)
    )
    short = {one.rsplit("/", 1)[-1].lower(): one for one in (*nets.names(), *ids)}
    close = difflib.get_close_matches(name.lower().rsplit("/", 1)[-1], short, n=limit, cutoff=0.6)
    return [short[item] for item in close]


_KIN = 6.0
"""How many times larger or smaller a model of the same publisher may be to tell more than a stranger of the size."""


def decoders_near(params: int, limit: int = 8, publisher: str = "") -> list[ModelFacts]:
    """Dense public decoders closest in size, scaled to `params`: what a model of that size plausibly looks like. First
    those of the same publisher, whose models share vocabulary and proportions."""

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
    known = [facts for row in rows("models", _REQUIRED) if (facts := _facts(row)) is not None]
    plain = (facts for facts in known if facts.kind == "decoder" and not (facts.parts or facts.tower))
    return tuple(facts for facts in plain if not facts.experts)


def transformers_near(params: int) -> list[ModelFacts]:
    """What a diffusion transformer of that size plausibly looks like: blocks of a decoder, without a vocabulary."""
    return [replace(facts, kind="dit", vocab=0, is_gated=False) for facts in decoders_near(params, limit=4)]


def rough_model(name: str) -> ModelFacts | None:
    """A listed model whose layers differ from a program's (latent or linear attention, cross attention, a vision tower
    beside them), counted as if they did not: `is_guessed`, so that nobody takes it for more."""
    exact, short, stem = _index()
    key = name.strip().lower()
    row = exact.get(key) or short.get(key.rsplit("/", 1)[-1]) or stem.get(_stem(key))
    if row is None:
        return None
    kind = "dit" if "diffus" in row["source"] else "decoder" if row["vocab"] else "encoder"
    facts = _facts_as(row, kind)
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
    for row in rows("models", _REQUIRED):
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


def _kind(row: dict[str, str]) -> str:
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


def _facts(row: dict[str, str]) -> ModelFacts | None:
    """None for a family without a layer program, or a row that does not say its shape."""
    kind = _kind(row)
    return None if kind == "other" else _facts_as(row, kind)


def _facts_as(row: dict[str, str], kind: str) -> ModelFacts | None:
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
