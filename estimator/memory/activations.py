"""What autograd keeps of one transformer layer, and of all of them.

Widths: T tokens, h hidden, q and k query and key width, f feed-forward width, n heads, s sequence. `c` is the bytes of
a matmul operand, `r` of the residual stream (fp32 under autocast). A matmul keeps its input only where its weight is
trained; element-wise functions keep what their derivative needs. Derived from the module code named in `SOURCE`; the
factors are counts of saved tensors, not fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from estimator.memory import recurrent
from estimator.memory.setup import Setup
from estimator.memory.weights import matrices
from estimator.models.pixels import PixelNet, Regime

SOURCE = "autograd rules of torch and the layer code of transformers (LlamaDecoderLayer, GPT2Block, BertLayer)"


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Bytes of one layer for one micro-batch. `floor` is what the most economical implementation keeps."""

    saved: float
    floor: float
    boundary: float  # the layer's input, all that full checkpointing keeps
    matmuls: float  # what selective checkpointing keeps
    transient: float  # alive only while the layer runs


@lru_cache(maxsize=256)
def layer(setup: Setup) -> LayerBytes:
    """The bytes of one layer on one device."""
    tokens, facts = setup.tokens, setup.facts
    if facts.parts:
        return _hybrid(setup)
    attention, attention_floor = _attention(setup)
    mlp, mlp_floor = _mlp(setup)
    norms, norms_floor = _norms(setup)
    boundary = setup.residual_bytes * facts.hidden / setup.sp
    c = setup.compute_bytes
    matmuls = boundary + c * (_every_other_matmul(setup) + facts.q_width) / setup.tp
    widest = c * (3 if facts.is_gated else 2) * _active_ffn(setup) / setup.tp
    transient = max(widest, _score_bytes(setup)) + 2 * c * facts.hidden
    return LayerBytes(
        saved=tokens * (norms + attention + mlp),
        floor=tokens * (norms_floor + attention_floor + mlp_floor),
        boundary=tokens * boundary,
        matmuls=tokens * matmuls,
        transient=tokens * transient,
    )


def _hybrid(setup: Setup) -> LayerBytes:
    """An average layer of a model whose layers differ. Every part has a norm before it."""
    facts, c, tokens = setup.facts, setup.compute_bytes, setup.tokens
    attention, attention_floor = _attention(setup)
    if facts.recurrence is not None and facts.recurrence.kind == "deltanet":  # its attention has a gate per query
        attention += 3 * c * facts.q_width / setup.tp
    if facts.has_qk_norm:
        attention += (facts.q_width + facts.kv_width) * _norm(setup) / setup.tp
    dense = replace(setup, facts=replace(facts, experts=0))
    scanned = recurrent.saved(facts, setup.seq_len, c) / setup.tp
    ffn = {"moe": _mlp(setup), "mlp": _mlp(dense)}
    sizes = {
        "attention": (attention, attention_floor),
        "recurrence": (scanned, c * facts.hidden),
        "both": (attention + scanned + c * facts.hidden, attention_floor),
        **ffn,
    }
    boundary = (4 if facts.has_wide_residual else setup.residual_bytes) * facts.hidden
    feeds = c * (1 if _keeps_inputs(setup) or not _copies_inputs(setup) else 0)
    norm = facts.hidden * (_norm(setup) + feeds) / setup.sp
    casts = _part_casts(setup)
    saved = sum(count * (sizes[name][0] + norm + casts.get(name, 0)) for name, count in facts.parts) / facts.layers
    floor = sum(count * sizes[name][1] for name, count in facts.parts) / facts.layers
    widest = c * (3 if facts.is_gated else 2) * _active_ffn(setup) / setup.tp
    transient = max(widest, _score_bytes(setup), recurrent.transient(facts, c) / setup.tp) + 2 * c * facts.hidden
    return LayerBytes(
        saved=tokens * saved,
        floor=tokens * floor,
        boundary=tokens * boundary / setup.sp,
        matmuls=tokens * (boundary + (saved - boundary) / 2),  # no policy is published for these: about every other one
        transient=tokens * transient,
    )


def _part_casts(setup: Setup) -> dict[str, float]:
    """Autocast casts the fp32 result of a norm for each matmul that reads it: all beyond the first are more copies."""
    if setup.residual_bytes == setup.compute_bytes or setup.is_frozen or setup.is_compiled:
        return {}
    each = setup.compute_bytes * setup.facts.hidden / setup.sp
    gated, recurrence = each * setup.facts.is_gated, setup.facts.recurrence
    is_split = recurrence is not None and recurrence.kind == "deltanet"  # queries to values, gate, two small ones
    return {"attention": 2 * each, "both": 2 * each, "mlp": gated, "moe": gated, "recurrence": 3 * each * is_split}


def _every_other_matmul(setup: Setup) -> float:
    """Width of what selective checkpointing keeps beside attention's result: the first, third, … matmul of a layer
    (torchtitan's policy; of a gated MLP the gate's and the last one's)."""
    facts, f = setup.facts, _active_ffn(setup)
    widths: list[float] = (
        [facts.q_width + 2 * facts.kv_width] if facts.is_qkv_fused else [facts.q_width, facts.kv_width, facts.kv_width]
    )
    widths.append(facts.hidden)
    if facts.is_gated:
        widths += [2 * f, facts.hidden] if facts.is_qkv_fused else [f, f, facts.hidden]
    else:
        widths += [f, facts.hidden]
    return sum(widths[::2])


def _keeps_inputs(setup: Setup) -> bool:
    """Whether matmuls keep their inputs: their weights, or adapters beside them, are trained. bitsandbytes keeps the
    input of an int8 matmul (`MatMul8bitLt`), and stopped keeping that of a 4-bit one in 0.43.2 (its changelog)."""
    is_kept = setup.quantization == "int8" or (setup.quantization is not None and setup.keeps_quantized_inputs)
    reads_inputs = setup.lora_targets == "all-linear" and setup.method != "adapter-v2"  # that one reads outputs
    reads_inputs = reads_inputs and not _copies_inputs(setup)
    return not setup.is_frozen or reads_inputs or is_kept


def _copies_inputs(setup: Setup) -> bool:
    """Whether adapters read copies of their own, and the frozen layer's input is not kept."""
    return setup.method in ("lora", "qlora") and setup.adapter_copy > 0


def _norm(setup: Setup) -> float:
    """Of one number: a fused LayerNorm keeps its input; RMSNorm written out in fp32 keeps the fp32 input and, where its
    weight is trained, the normalised value."""
    if not setup.facts.is_rms_norm or setup.is_compiled:
        return float(setup.residual_bytes)
    is_trained = not setup.is_frozen or _scales_outputs(setup)  # LLaMA-Adapter v2 trains norms as well
    is_wide = setup.residual_bytes == 4 or setup.facts.has_wide_norm
    return 4.0 + ((4 if is_wide else setup.compute_bytes) if is_trained else 0)


def _scales_outputs(setup: Setup) -> bool:
    """Whether adapters work on what every matmul gives. Where "an adapter" is all that is said, the larger reading is
    the second version of LLaMA-Adapter."""
    return setup.method == "adapter-v2" or (setup.method == "other" and setup.lora_targets == "all-linear")


def _norms(setup: Setup) -> tuple[float, float]:
    """Norm inputs and what feeds the matmul behind."""
    facts, c, r, each = setup.facts, setup.compute_bytes, setup.residual_bytes, _norm(setup)
    feeds = setup.input_bytes * (
        min(facts.norms, 2) + _extra_copies(setup) if _keeps_inputs(setup) else not _copies_inputs(setup)
    )
    total = facts.hidden * (facts.norms * each + feeds)
    if facts.has_qk_norm and not setup.is_compiled:
        total += (facts.q_width + facts.kv_width) * each / setup.tp
    dropout = 2 * facts.hidden if facts.has_dropout and not setup.is_compiled else 0
    if facts.has_layer_scale and not setup.is_compiled:  # the factor's derivative reads what it multiplied
        total += 2 * c * facts.hidden
    return (total + dropout) / setup.sp, facts.norms * min(r, c) * facts.hidden / setup.sp


def _extra_copies(setup: Setup) -> int:
    """Autocast casts the fp32 input of each matmul anew, and each keeps its own copy: queries, keys and values, gate
    and up. Where the input has 16 bits already they share it."""
    facts = setup.facts
    if setup.residual_bytes == setup.compute_bytes or setup.is_frozen or setup.is_compiled:
        return 0
    return (0 if facts.is_qkv_fused else 2) + (1 if facts.is_gated and not facts.is_qkv_fused else 0)


def _score_bytes(setup: Setup) -> float:
    """Bytes per token of materialised scores: what the softmax reads, its result, and that cast back; where it computes
    in the precision of the rest, two of them."""
    if setup.attention != "eager":
        return 0.0
    c, wide = setup.compute_bytes, 4 if setup.is_amp or setup.facts.is_rms_norm else setup.compute_bytes
    return setup.facts.heads / setup.tp * setup.seq_len * (2 * c + (wide if wide != c else 0))


def _attention(setup: Setup) -> tuple[float, float]:
    """Queries, keys, values and the output; eager attention keeps fp32 probabilities and their 16-bit copy."""
    facts, c = setup.facts, setup.compute_bytes
    kv = facts.q_width if setup.attention == "eager" or setup.repeats_keys else facts.kv_width
    is_view = facts.keeps_fused and not setup.is_compiled and setup.attention != "eager"
    fused = facts.q_width + facts.kv_width if is_view else 0
    streams = c * (2 * facts.q_width + 2 * kv + fused) / setup.tp
    if facts.latent:
        streams = _latent_streams(setup)
    floor = c * 2 * facts.q_width / setup.tp
    heads = facts.heads / setup.tp
    if facts.relative_span:
        streams += _relative_streams(setup)
    if setup.attention != "eager":
        return streams + heads * (4 + setup.seq_len * _bias(setup)), floor
    return streams + heads * setup.seq_len * _probability(setup), floor + heads * setup.seq_len * c


def _relative_streams(setup: Setup) -> float:
    """DeBERTa compares each query and each key with every relative position, and gathers from both results: backward of
    a gather keeps what it gathered from. The positions' keys and queries are repeated for every sample; keys are scaled
    twice (transformers DebertaV2 DisentangledSelfAttention)."""
    facts, c = setup.facts, setup.compute_bytes
    compared = 2 * facts.heads * facts.relative_span
    repeated = 2 * facts.relative_span * facts.hidden / setup.seq_len
    return c * (compared + repeated + 2 * facts.hidden) / setup.tp


def _latent_streams(setup: Setup) -> float:
    """Of latent attention: queries and keys are put together of a plain and a rotated part; the values are a view of
    the product that the plain keys come from; and each latent has a norm and a matmul behind it, on every rank."""
    facts, c = setup.facts, setup.compute_bytes
    values = facts.heads * (facts.value_dim or facts.head_dim)
    product = facts.heads * (facts.plain_dim or facts.head_dim) + values
    latents = facts.query_latent + facts.latent
    return c * (2 * facts.q_width + product + values) / setup.tp + latents * (_norm(setup) + c)


def _recomputed_scores(setup: Setup) -> float:
    """Bytes per token that selective recomputation of the core attention frees: everything between queries, keys and
    values and its result (Korthikanti et al. 2022, section 5: 34 s b h stay of 34 s b h + 5 a s^2 b)."""
    heads = setup.facts.heads / setup.tp
    if setup.attention != "eager":
        return heads * (4 + setup.seq_len * _bias(setup))
    return heads * setup.seq_len * _probability(setup)


def _bias(setup: Setup) -> int:
    """Bytes of one score that a fused kernel keeps: of a learned bias added to the mask of each layer."""
    return setup.compute_bytes if setup.facts.biases_scores else 0


def _probability(setup: Setup) -> float:
    """Bytes that eager attention keeps of one score."""
    facts, c = setup.facts, setup.compute_bytes
    wide = 4 if setup.is_amp or facts.is_rms_norm else c  # autocast and Llama's code compute the softmax in fp32
    each = wide + (c if wide != c else 0.0) + (c if facts.caps_scores else 0.0)  # the tanh's result
    if setup.keeps_scores:  # what the softmax read, in its precision
        each += wide
    if facts.has_dropout:  # a mask; the result is the matmul's operand, a tensor of its own already where it was cast
        each += 1.0 + (c if wide == c else 0.0)
    return each


def _cross(setup: Setup) -> float:
    """Of one decoder layer: its queries, and what it keeps of the encoder's result. Autocast casts that anew for keys
    and for values."""
    facts, c, source, target = setup.facts, setup.compute_bytes, setup.tokens, setup.target.tokens
    kept = _norm(setup) * facts.hidden + c * 2 * facts.q_width / setup.tp
    kept += c * facts.hidden if _keeps_inputs(setup) else 0
    kept += facts.hidden if facts.has_dropout and not setup.is_compiled else 0
    kept += (
        facts.heads
        / setup.tp
        * (setup.seq_len * _probability(setup) if setup.attention == "eager" else 4 + setup.seq_len * _bias(setup))
    )
    copies = 2 * facts.hidden if setup.residual_bytes != c and _keeps_inputs(setup) else 0
    return target * kept + source * c * (2 * facts.kv_width / setup.tp + copies)


def _active_ffn(setup: Setup) -> float:
    return setup.facts.active_ffn


def _mlp(setup: Setup) -> tuple[float, float]:
    """Gated: gate, its activation, up, and their product where the next matmul keeps its input. Plain: before and
    after the activation (ReLU: after); a tanh GELU written out keeps three more."""
    c, width = setup.compute_bytes, _active_ffn(setup) / setup.tp
    product = 1 if _keeps_inputs(setup) else 0
    if setup.is_compiled:
        return c * width * (2 if setup.facts.is_gated else 1), c * width
    routed = 0.0
    if setup.facts.experts:  # rows gathered for each expert, and what it makes of them before its share is applied
        routed = c * setup.facts.experts_per_token * setup.facts.hidden * (1 + product) / setup.tp
    is_written_out = setup.facts.activation == "gelu_new" and not setup.is_activation_fused
    dropped = 1.0 if setup.facts.drops_ffn else 0.0  # a mask; the result is the next matmul's input in any case
    if setup.facts.activation == "relu2" and not setup.facts.is_gated:  # the square reads what the ReLU gave
        return width * c * (1 + product) + routed, c * width
    if setup.facts.activation == "relu" and not setup.facts.is_gated:  # its derivative reads its result, the next input
        return width * (c * (1 + product * dropped) + dropped), c * width
    written_out = 3.0 * c if is_written_out else 0.0
    if setup.facts.activation == "quick_gelu" and not setup.is_compiled:  # x * sigmoid(1.702 x), in three operations
        written_out = float(c)
    if is_written_out and setup.residual_bytes != c:  # autocast computes the cube, and all that follows, in fp32
        written_out = 4.0 + 4.0 + 4.0
    if setup.facts.is_gated:
        return width * (c * 3 + product * setup.input_bytes + written_out + dropped) + routed, 2 * c * width
    return width * (c + product * setup.input_bytes + written_out + dropped), c * width


def adapter_bytes(setup: Setup) -> float:
    """What adapters keep beside the layer's own: LoRA its input per target, as `adapter_copy` says; adapters that scale
    what a matmul gives (IA3, LLaMA-Adapter v2) that output."""
    facts = setup.facts
    if _scales_outputs(setup):
        outputs = 2 * facts.hidden + facts.q_width + 2 * facts.kv_width + (1 + facts.is_gated) * _active_ffn(setup)
        return setup.tokens * outputs * setup.compute_bytes / setup.tp
    if setup.method not in ("lora", "qlora"):
        return 0.0
    inputs: float = facts.hidden * (1 if facts.is_qkv_fused else 2)  # queries and values
    if setup.lora_targets == "all-linear":
        before = (1 if facts.is_qkv_fused else 3) + (2 if facts.is_gated and not facts.is_qkv_fused else 1)
        inputs = before * facts.hidden + facts.q_width + _active_ffn(setup)
    if facts.parts:
        inputs = _part_inputs(setup)
    return (setup.tokens * inputs * setup.adapter_copy + _magnitude_bytes(setup)) / setup.tp


def _part_inputs(setup: Setup) -> float:
    """Widths of what adapters read in an average layer of a hybrid; of recurrences that of the projection alone, for
    their kernels take the other weights as they are."""
    facts, is_wide = setup.facts, setup.lora_targets == "all-linear"
    attention = 3 * facts.hidden + facts.q_width if is_wide else 2 * facts.hidden
    ffn = (1 + facts.is_gated) * facts.hidden + _active_ffn(setup) if is_wide else 0
    each = {"attention": attention, "recurrence": facts.hidden * is_wide, "mlp": ffn, "moe": ffn}
    each["both"] = attention + each["recurrence"]
    return sum(count * each[name] for name, count in facts.parts) / facts.layers


def _magnitude_bytes(setup: Setup) -> float:
    """What DoRA keeps beside LoRA: the derivative of a target's magnitude reads what the frozen matrix and the adapter
    gave. Behind a dropout the frozen matrix is multiplied again with what was dropped out, in the adapters' fp32, for
    which it is cast: that copy stays too (peft tuners/lora/dora.py; traced)."""
    if not setup.is_dora:
        return 0.0
    facts, wide = setup.facts, 4 if setup.widens_adapters else setup.compute_bytes
    is_wide = setup.adapter_copy > 3  # no autocast narrows what fp32 adapters read
    shapes = matrices(setup)
    if setup.lora_targets != "all-linear":
        shapes = [(facts.hidden, facts.q_width, 1), (facts.hidden, facts.kv_width, 1)]
    numbers = sum(rows * columns * count for rows, columns, count in shapes)
    each, cast = (setup.compute_bytes + wide, 0) if not setup.adapter_copy else (8, 4) if is_wide else (4, 2)
    return setup.tokens * setup.adapted_outputs * each + numbers * cast


def _cross_adapter_bytes(setup: Setup) -> float:
    """What adapters of the attention from decoder to encoder keep: of queries and output the target's, of keys and
    values the source's."""
    if setup.method not in ("lora", "qlora"):
        return 0.0
    facts, is_wide = setup.facts, setup.lora_targets == "all-linear"
    target = facts.hidden + (facts.q_width if is_wide else 0)
    source = facts.hidden * (2 if is_wide else 1)
    return (setup.target.tokens * target + setup.tokens * source) * setup.adapter_copy / setup.tp


@dataclass(frozen=True, slots=True)
class SavedActivations:
    """Bytes kept from forward to backward, and those of the layer that is being recomputed or run."""

    kept: float
    kept_floor: float
    working: float
    working_floor: float
    formula: str


def saved(setup: Setup) -> SavedActivations:
    """All layers of the fullest stage, with the micro-batches that a pipeline keeps in flight."""
    if setup.facts.pixel_net is not None:
        return _of_positions(setup, setup.facts.pixel_net)
    if setup.target_len:
        return _of_two_stacks(setup)
    one, layers = layer(setup), setup.stage_layers
    if setup.method == "freeze":  # below the first trained layer autograd records nothing
        one, layers = layer(replace(setup, method="full")), min(setup.trained_layers, layers)
    in_flight = min(setup.pp, setup.grad_accum) if setup.pp > 1 else 1
    full = one.saved + adapter_bytes(setup)
    if setup.checkpointing == "full":
        kept, floor, working, working_floor = one.boundary, one.boundary, full, one.floor
        what = "layer inputs"
    elif (
        setup.checkpointing == "core-attention"
    ):  # Megatron: softmax and dropout of the scores alone are computed again
        scores = setup.tokens * _recomputed_scores(setup)
        kept, floor, working, working_floor = full - scores, one.boundary, one.transient + scores, 0.0
        what = "saved tensors but attention's"
    elif setup.checkpointing == "selective":
        kept, floor, working, working_floor = one.matmuls, one.boundary, full - one.matmuls, 0.0
        what = "matmul outputs"
    else:
        kept, floor, working, working_floor = full, one.floor, one.transient, 0.0
        what = "saved tensors"
    final = setup.tokens * setup.facts.hidden * (setup.residual_bytes + setup.compute_bytes) + tower_bytes(setup)
    formula = f"{layers} layers x {kept / max(setup.tokens, 1):,.0f} B of {what} per token x {setup.tokens:,} tokens"
    return SavedActivations(
        kept=kept * layers * in_flight + final,
        kept_floor=floor * max(layers - 1, 0),
        working=working,
        working_floor=working_floor,
        formula=formula,
    )


def tower_bytes(setup: Setup) -> float:
    """What an image encoder keeps of one picture a sample, where it is trained: with full checkpointing its inputs."""
    tower = setup.facts.tower
    if tower is None or not setup.trains_tower:
        return 0.0
    tokens = (tower.image // tower.patch) ** 2 + 1
    attention = setup.attention if setup.attention != "eager" else "sdpa"
    one = layer(replace(setup, facts=tower, seq_len=tokens, attention=attention, cp=1))
    return tower.layers * (one.boundary if setup.checkpointing == "full" else one.saved)


def _of_two_stacks(setup: Setup) -> SavedActivations:
    """An encoder over the source, and a decoder over the target that attends to the encoder's result."""
    share = setup.stage_layers / setup.facts.layers
    counts = (setup.facts.layers - setup.facts.decoder_layers, setup.facts.decoder_layers)
    if setup.method == "freeze":
        setup, counts = replace(setup, method="full"), (0, min(setup.trained_layers, counts[1]))
    stacks = (layer(setup), layer(setup.target))
    full = [
        stacks[0].saved + adapter_bytes(setup),
        stacks[1].saved + adapter_bytes(setup.target) + _cross(setup) + _cross_adapter_bytes(setup),
    ]
    kept, working = full, max(one.transient for one in stacks)
    if setup.checkpointing != "none":
        kept, working = [one.boundary for one in stacks], max(full)
    per_token = setup.facts.hidden * (setup.residual_bytes + setup.compute_bytes)
    total = sum(count * each for count, each in zip(counts, kept, strict=True)) * share
    floor = sum(
        count * (one.floor if kept is full else one.boundary) for count, one in zip(counts, stacks, strict=True)
    )
    formula = f"{counts[0]} layers x {setup.tokens:,} tokens and {counts[1]} x {setup.target.tokens:,}"
    return SavedActivations(
        kept=total + (setup.tokens + setup.target.tokens) * per_token,
        kept_floor=floor * share / 2,
        working=working,
        working_floor=0.0,
        formula=formula,
    )


def _regime(setup: Setup, net: PixelNet) -> Regime:
    if setup.is_frozen and not setup.is_amp:
        return net.frozen_mixed if setup.autocasts and setup.precision != "fp32" else net.frozen
    return net.mixed if setup.is_amp and not setup.is_gathered else net.trained


def _of_positions(setup: Setup, net: PixelNet) -> SavedActivations:
    """Of a diffusion network, whose blocks were traced: by latent position and 16-bit element."""
    regime = _regime(setup, net)
    scale = setup.tokens * (2 if setup.precision == "fp32" else 1)
    kept, working = regime.kept, max(regime.block - regime.kept / net.layers, 0.0)
    if setup.precision == "fp32" and not setup.is_frozen:
        kept = net.wide / 2
    if setup.checkpointing != "none":
        kept, working = net.held, regime.block
    if setup.attention == "eager":
        maps = setup.micro_batch * setup.seq_len**2 * net.scores * (6 if setup.is_amp else setup.compute_bytes) / scale
        kept += 0.0 if setup.checkpointing != "none" else maps
        working += maps / 8  # the largest of them; a UNet has five at full size
    formula = f"{setup.tokens:,} latent positions x {kept:,.0f} B"
    floor = net.held * max(net.layers - 1, 0) / max(net.layers, 1) / 2
    return SavedActivations(
        kept=kept * scale, kept_floor=floor * setup.tokens, working=working * scale, working_floor=0.0, formula=formula
    )
