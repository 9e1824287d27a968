"""Norms, dropout, softmax, attention, losses, embeddings: what each keeps for its backward, and in which precision."""

from __future__ import annotations

import math

from analyzer.networks.operations import number, operation, tensor
from analyzer.networks.tape import Tape
from analyzer.networks.values import Missing, Stuck, Tensor


@operation("batch_norm", "instance_norm")
def norm(tape: Tape, given: object, *args: object, **keywords: object) -> Tensor:
    """Keeps its input; in its precision, whatever weights and statistics have: autocast leaves it alone, and
    the kernels take 16-bit numbers with fp32 weights."""
    x = tensor(given)
    made = tape.result(x.shape, [x, *args, *keywords.values()], is_full=x.is_full)
    if made.is_grad:
        tape.keep(x)
    return made


@operation("layer_norm", "group_norm", "rms_norm")
def layer_norm(tape: Tape, given: object, *args: object, **keywords: object) -> Tensor:
    """Keeps its input; autocast computes it in fp32."""
    x = tensor(given)
    made = tape.result(x.shape, [x, *args, *keywords.values()], is_full=True)
    if made.is_grad:
        tape.widened(x)
    return made


@operation("softmax", "log_softmax", "gumbel_softmax", "softmin")
def softmax(tape: Tape, given: object, *_: object, **__: object) -> Tensor:
    """Keeps its result; autocast computes it in fp32."""
    x = tensor(given)
    made = tape.result(x.shape, [x], is_full=True)
    if made.is_grad:
        tape.keep(made)
    return made


@operation("normalize")
def normalize(tape: Tape, given: object, *_: object, **__: object) -> Tensor:
    """A division by the norm: keeps input and quotient."""
    x = tensor(given)
    made = tape.result(x.shape, [x])
    if made.is_grad:
        tape.keep(x)
    return made


@operation("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout")
def dropout(tape: Tape, given: object, p: object = 0.5, training: object = True, inplace: object = False) -> Tensor:
    """Keeps a mask of one byte per number (native_dropout)."""
    x = tensor(given)
    if p in (0, 0.0) or training is False or not tape.is_training or isinstance(p, Missing):
        return x
    made = tape.result(x.shape, [x])
    if made.is_grad:
        tape.mask(made)
    return made


@operation("scaled_dot_product_attention", "flash_attn_func")
def attention(tape: Tape, query: object, key: object, value: object, *args: object, **keywords: object) -> Tensor:
    """The fused kernel keeps queries, keys, values, its result and one number per row."""
    q, k, v = tensor(query), tensor(key), tensor(value)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise Stuck(f"attention over {list(q.shape)}, {list(k.shape)}, {list(v.shape)}")
    made = tape.result((*q.shape[:-1], v.shape[-1]), [q, k, v], is_full=False)
    if made.is_grad:
        for each in (q, k, v):
            tape.operand(each, has_weight=False)
        tape.keep(made)
        tape.full += math.prod(q.shape[:-1]) if tape.is_recording else 0
    return made


# --- losses and embeddings ----------------------------------------------------------------------------------------


@operation("cross_entropy")
def cross_entropy(tape: Tape, given: object, *_: object, **__: object) -> Tensor:
    """Keeps the log-probabilities, in fp32."""
    x = tensor(given)
    if x.needs_grad:
        tape.keep(tape.result(x.shape, [x], is_full=True))
    return tape.result((), [x], is_full=True)


@operation(
    "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cosine_similarity", "triplet_margin_loss", "poisson_nll_loss",
)  # fmt: skip
def loss(tape: Tape, given: object, *args: object, **keywords: object) -> Tensor:
    """Keeps what it compares."""
    parts = [each for each in (given, *args, *keywords.values()) if isinstance(each, Tensor)]
    if any(each.needs_grad for each in parts):
        for each in parts:
            tape.keep(each)
    return tape.result((), parts, is_full=True)


@operation("embedding")
def embedding(tape: Tape, indices: object, weight: object, *_: object, **__: object) -> Tensor:
    """Keeps the indices."""
    ids, w = tensor(indices), tensor(weight)
    if ids.dtype == "float":
        raise Stuck("an embedding of numbers that are no indices")
    if ids.most is not None and ids.most >= w.shape[0]:
        raise Stuck(f"position {ids.most} of a table of {w.shape[0]}")
    made = tape.result((*ids.shape, w.shape[1]), [w], is_full=True)
    if made.is_grad:
        tape.keep(ids)
    return made


@operation("one_hot")
def one_hot(tape: Tape, given: object, classes: object = -1) -> Tensor:
    """Integers."""
    return Tensor((*tensor(given).shape, number(classes)), "int")
