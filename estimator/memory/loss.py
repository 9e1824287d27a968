"""Logits and what the loss makes of them: for a small model with a large vocabulary, most of the peak."""

from __future__ import annotations

from estimator.memory.setup import READS_LOGPS, Setup
from estimator.report import Term

_CHUNKS = 8


def logits(setup: Setup) -> Term:
    """The head's output at the end of forward; where a tanh bounds it, what the tanh read as well."""
    per_token = setup.compute_bytes
    per_token += setup.compute_bytes if setup.facts.caps_scores and setup.is_training else 0  # the tanh's result
    return _term(setup, "logits", per_token, "output of the head")


def widened_logits(setup: Setup) -> Term:
    """The loss reads 16-bit logits in fp32: a second tensor, which a compiler makes on the way."""
    is_copied = setup.compute_bytes == 2 and _is_widened(setup) and not setup.is_compiled
    return _term(
        setup, "fp32 copy of the logits", 4 if is_copied else 0, "transformers ForCausalLMLoss: logits.float()"
    )


def held_logits(setup: Setup) -> Term:
    """What is left of them in backward: log_softmax keeps its result alone, so logits stay where a variable of the loop
    holds them, and what a tanh gave. transformers of old, that shifted them, gave them back in fp32."""
    is_held, c = setup.holds_logits or setup.is_compiled, setup.compute_bytes  # a compiler keeps what it reads
    each = _width(setup) if setup.shifts_logits and setup.widens_logits and not setup.is_compiled else c
    per_token = each * is_held + c * setup.facts.caps_scores
    return _term(setup, "logits", per_token, "torch autograd: log_softmax keeps its output")


def shifted_logits(setup: Setup) -> Term:
    """A copy of all but the last row, while the loss's forward pass runs; what was cast is gone by then."""
    width, c = _width(setup), setup.compute_bytes
    each = width - (c if width > c and setup.widens_logits else 0)
    is_copied = setup.shifts_logits and not setup.is_compiled
    source = "transformers before 4.45: logits.float(), [..., :-1, :].contiguous()"
    return _term(setup, "shifted copy of the logits", each if is_copied else 0, source)


def log_probabilities(setup: Setup) -> Term:
    """What the loss's forward pass makes and keeps; a compiler makes it while it reduces."""
    per_token = 0 if setup.is_compiled else 4 if setup.is_amp else _width(setup)
    source = "cross_entropy keeps log_softmax (derivatives.yaml: nll_loss, _log_softmax)"
    return _term(setup, "log-probabilities", per_token, source)


def logit_gradient(setup: Setup) -> Term:
    """What the loss's backward pass makes: the gradient of the log-probabilities, zeros but for the labels, and that of
    the logits. Sequence by sequence the first is one sequence's, and the second is stacked from their parts."""
    name, width, c = "gradient of the logits", _width(setup), setup.compute_bytes
    if setup.is_compiled:
        return _term(setup, name, 4, "one kernel")
    if setup.objective in READS_LOGPS and not _is_widened(setup):
        kept = 4 if setup.is_amp else c  # goes as the gradients come
        return _term(setup, name, max(2 * c - kept, 0) + 2 * width // setup.samples, "trl selective_log_softmax")
    return _term(setup, name, 2 * width, "nll_loss_backward and _log_softmax_backward_data make them whole")


def reference_logits(setup: Setup) -> Term:
    """Those of a frozen copy, and one sequence's log-probabilities."""
    per_token = setup.compute_bytes + _width(setup) // max(setup.samples, 1)
    return _term(setup, "reference logits", per_token, "trl compute_ref_log_probs, after the policy's forward pass")


def _term(setup: Setup, name: str, per_token: int, source: str) -> Term:
    total = int(_elements(setup) * per_token)
    chunks = f" / {_CHUNKS} chunks" if setup.loss_impl == "chunked" else ""
    formula = f"{setup.target.tokens:,} tokens x {setup.facts.vocab:,} x {per_token} B{chunks}"
    return Term(name, total, 0, formula, source)


def _width(setup: Setup) -> int:
    return 4 if _is_widened(setup) else setup.compute_bytes


def _is_widened(setup: Setup) -> bool:
    """Whether the loss reads all logits in fp32: autocast casts them for a cross-entropy, and where code does. Where
    log-probabilities are taken sequence by sequence, only theirs are fp32 under autocast."""
    is_cast = setup.is_amp and setup.objective not in READS_LOGPS
    return is_cast or setup.compute_bytes == 4 or setup.widens_logits


def _elements(setup: Setup) -> float:
    """Logits that exist at once."""
    if not setup.facts.has_head or setup.loss_impl == "fused":
        return 0.0
    chunks = _CHUNKS if setup.loss_impl == "chunked" else 1
    return setup.target.tokens * setup.facts.vocab / (setup.tp * chunks)
