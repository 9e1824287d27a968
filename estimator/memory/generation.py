"""Prefill and decode: the KV cache and what one forward pass needs beside it."""

from __future__ import annotations

from estimator.memory.activations import layer
from estimator.memory.setup import Setup
from estimator.report import Term


def kv_cache(setup: Setup) -> Term:
    """Keys and values of every layer for every token of the context."""
    facts = setup.facts
    total = 2 * setup.stage_layers * facts.kv_width / setup.tp * setup.tokens * setup.kv_bytes
    formula = (
        f"2 x {setup.stage_layers} layers x {facts.kv_width} wide x {setup.tokens:,} tokens x {setup.kv_bytes:g} B"
    )
    return Term("KV cache", int(total), int(total), formula, "keys and values per layer (GQA width)")


def forward_working_set(setup: Setup) -> Term:
    """One layer's intermediates over the whole prompt; nothing is kept for a backward pass."""
    one = layer(setup)
    share = setup.prompt_share if setup.task == "generate" else 1.0
    total = (one.transient + 2 * one.boundary) * share
    return Term("prefill working set", int(total), 0, "widest layer intermediates over the prompt", "no_grad forward")


def last_logits(setup: Setup) -> Term:
    """Logits of the last position, and their fp32 copy."""
    total = setup.micro_batch * setup.facts.vocab * (setup.compute_bytes + 4)
    if setup.facts.kind != "decoder":
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
