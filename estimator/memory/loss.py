"""Logits and what the loss makes of them: for a small model with a large vocabulary, most of the peak."""

from __future__ import annotations

from estimator.memory.setup import Setup
from estimator.report import Term

_CHUNKS = 8


def logits(setup: Setup) -> Term:
    """The head's output at the end of forward."""
    per_token = setup.compute_bytes + (
        4 if setup.compute_bytes == 2 and _is_widened(setup) and not setup.is_compiled else 0
    )
    per_token += setup.compute_bytes if setup.facts.caps_scores and setup.is_training else 0  # the tanh's result
    total = _elements(setup) * per_token
    formula = f"{setup.target.tokens:,} tokens x {setup.facts.vocab:,} x {per_token} B"
    return Term("logits", int(total), 0, formula, "head output and its fp32 copy (transformers ForCausalLMLoss)")


def loss_backward(setup: Setup) -> Term:
    """Log-probabilities, and the gradient of the logits, beside the logits."""
    width = 4 if _is_widened(setup) else setup.compute_bytes
    per_token = 4 if setup.is_compiled else (2 + setup.shifts_logits) * width
    total = _elements(setup) * per_token
    formula = f"{setup.target.tokens:,} tokens x {setup.facts.vocab:,} x {per_token} B"
    return Term(
        "loss temporaries", int(total), 0, formula, "cross_entropy keeps log_softmax; its backward makes a gradient"
    )


def _is_widened(setup: Setup) -> bool:
    """Whether the loss computes in fp32: autocast's does, and where code casts the logits."""
    return setup.is_amp or setup.compute_bytes == 4 or setup.widens_logits


def _elements(setup: Setup) -> float:
    """Logits that exist at once."""
    if not setup.facts.has_head or setup.loss_impl == "fused":
        return 0.0
    chunks = _CHUNKS if setup.loss_impl == "chunked" else 1
    return setup.target.tokens * setup.facts.vocab / (setup.tp * chunks)
