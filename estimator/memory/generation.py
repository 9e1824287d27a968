"""Prefill and decode: the KV cache and what one forward pass needs beside it."""

from __future__ import annotations

from estimator.memory import recurrent
from estimator.memory.activations import layer
from estimator.memory.setup import Setup
from estimator.report import Term


def kv_cache(setup: Setup) -> Term:
    """Keys and values of every token of the context, for every layer that attends to all of it. Layers with a window
    need no more than it, which engines may or may not use; latent attention needs one vector per token and layer,
    of which transformers caches the keys and values."""
    facts, stage = setup.facts, setup.stage_layers / setup.facts.layers
    width = facts.kv_width + facts.value_width
    least = facts.latent or width / setup.tp  # a latent is not divided: every rank needs it whole
    if facts.latent and not setup.expands_latent:
        width = facts.latent * setup.tp
    attending = facts.cached_layers if facts.parts else facts.cached_layers or facts.layers - facts.window_layers
    whole = attending * stage
    near = facts.window_layers * stage
    entries = (whole + near) * setup.tokens
    needed = whole * setup.tokens + near * min(setup.tokens, setup.micro_batch * (facts.window or setup.seq_len))
    total = entries * width / setup.tp * setup.kv_bytes
    formula = f"{whole + near:g} layers x {width:,} wide x {setup.tokens:,} tokens x {setup.kv_bytes:g} B"
    floor = needed * least * setup.kv_bytes
    return Term("KV cache", int(total), int(min(floor, total)), formula, "keys and values per layer (GQA width)")


def recurrent_state(setup: Setup) -> Term:
    """What recurrent layers carry from token to token: the same however long the context is."""
    facts, name = setup.facts, "recurrent state"
    count = sum(count for part, count in facts.parts if part in ("recurrence", "both"))
    if not count:
        return Term(name, 0, 0, "no recurrent layers", "")
    each = recurrent.state_bytes(facts, setup.compute_bytes) / setup.tp
    total = setup.micro_batch * count / setup.pp * each
    return Term(name, int(total), 0, f"{setup.micro_batch} x {count} layers x {each:,.0f} B", recurrent.SOURCE)


def forward_working_set(setup: Setup) -> Term:
    """One layer's intermediates over the whole prompt; nothing is kept for a backward pass."""
    one = layer(setup)
    share = setup.prompt_share if setup.task == "generate" else 1.0
    total = (one.transient + 2 * one.boundary) * share
    if setup.task == "generate":
        name, formula = "prefill working set", "the widest layer's intermediates over the prompt"
    else:
        name, formula = "forward working set", "the widest layer's intermediates"
    return Term(name, int(total), 0, formula, "no_grad forward")


_CODER_MAPS = 3 * 256
"""Numbers per pixel while an autoencoder makes a picture: its last block but one works at the picture's size with 256
channels, and a residual, a norm's result and a convolution's are there at once (diffusers AutoencoderKL; traced)."""


def decoded_picture(setup: Setup) -> Term:
    """What the autoencoder of a pipeline holds while it makes the picture; of videos, which are made in tiles and few
    frames at a time, nothing is counted."""
    net, name = setup.facts.pixel_net, "picture being decoded"
    if net is None or net.stride or not setup.companions:
        return Term(name, 0, 0, "no autoencoder is there", "")
    pixels = setup.micro_batch * (setup.seq_len - net.words) * net.side**2
    formula = f"{pixels:,} pixels x {_CODER_MAPS} x {setup.compute_bytes} B"
    return Term(name, pixels * _CODER_MAPS * setup.compute_bytes, 0, formula, "diffusers AutoencoderKL decoder")


def last_logits(setup: Setup) -> Term:
    """Logits of the last position, and their fp32 copy."""
    total = setup.micro_batch * setup.facts.vocab * (setup.compute_bytes + 4)
    if not setup.facts.has_head:
        total = 0
    return Term("logits", total, 0, f"{setup.micro_batch} x {setup.facts.vocab:,} x 6 B", "transformers generate")


def dequantized(setup: Setup) -> Term:
    """A quantised weight is unpacked for its matmul, one at a time."""
    if setup.quantized_bytes is None:
        return Term("dequantised weight", 0, 0, "weights are not quantised", "")
    facts = setup.facts
    width = facts.moe_ffn or facts.ffn
    total = facts.hidden * max(width, facts.q_width) * setup.compute_bytes / setup.tp
    return Term("dequantised weight", int(total), 0, "largest matrix at compute precision", "bitsandbytes MatMul4Bit")
