"""Terms of a network that the repository defines: what a forward pass keeps, counted by the analyzer for one sample."""

from __future__ import annotations

from estimator.memory.setup import Setup
from estimator.models.local import Pass
from estimator.report import Term

SOURCE = "the forward pass in the repository, operation by operation (torch derivative formulas)"
_INDEX_BYTES = 8


def kept(setup: Setup) -> Term:
    """What backward needs. Under autocast matmuls keep 16-bit copies and the rest what it was computed in."""
    one, size = _pass(setup), setup.compute_bytes
    per_sample = one.half * 2 + one.full * 4 if setup.is_amp else one.kept * size
    per_sample += one.indices * _INDEX_BYTES + one.masks
    shape = "x".join(map(str, one.shape))
    formula = f"{setup.micro_batch} samples ({shape}) x {per_sample:,} B ({one.kept:,} numbers, masks, indices)"
    return Term("saved activations", setup.micro_batch * per_sample, setup.micro_batch * _must(setup), formula, SOURCE)


def _must(setup: Setup) -> int:
    """Bytes per sample that no run can do without. Eager torch keeps what its derivative formulas name, in 16 bits at
    least; a compiler may compute all but the operands of trained matmuls again."""
    one, size = _pass(setup), setup.compute_bytes
    if setup.checkpointing != "none":
        return 0  # which parts are computed again is the repository's own choice
    if setup.is_compiled:
        return one.operands * size
    return one.kept * size + one.indices * _INDEX_BYTES + one.masks


def weight_copies(setup: Setup) -> Term:
    """Autocast keeps a 16-bit copy of each fp32 weight until its backward has run."""
    total = 2 * setup.device_params if setup.is_amp else 0
    return Term("16-bit weight copies", total, 0, f"{setup.device_params:,} x 2 B", "torch.autocast caches its casts")


def outputs(setup: Setup) -> Term:
    """What the network returns and the loss reads, in fp32, and once more as log-probabilities or differences."""
    total = setup.micro_batch * _pass(setup).outputs * 4
    formula = f"{setup.micro_batch} samples x {_pass(setup).outputs:,} numbers x 4 B"
    return Term("predictions", total, 0, formula, "losses compute in fp32 and keep what they compared")


def loss_temporaries(setup: Setup) -> Term:
    """Two gradients of the predictions: that of the log-probabilities and that of the logits."""
    total = 2 * setup.micro_batch * _pass(setup).outputs * 4
    return Term("loss temporaries", total, 0, "two gradients of the predictions", "nll_loss and log_softmax backward")


def working(setup: Setup) -> Term:
    """The gradients of the widest operation's input and output; a checkpointed part while it is differentiated."""
    one = _pass(setup)
    total = setup.micro_batch * (2 * one.widest + one.recomputed) * setup.compute_bytes
    return Term("tensors being differentiated", total, 0, "the widest tensor's gradient and its input's", SOURCE)


def passing(setup: Setup) -> Term:
    """Input and output of the widest operation of a forward pass."""
    total = 2 * setup.micro_batch * _pass(setup).widest * setup.compute_bytes
    must = 0 if setup.is_training else total // 4  # in training they may be among what is saved
    return Term("tensors in flight", total, must, "input and output of the widest operation", SOURCE)


def _pass(setup: Setup) -> Pass:
    assert setup.facts.local is not None
    return setup.facts.local
