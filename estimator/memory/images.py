"""Terms of a network that reads images: its maps are counted in `estimator.models.images`, for one image."""

from __future__ import annotations

from estimator.memory.setup import Setup
from estimator.models.images import Cost, cost
from estimator.report import Term

SOURCE = "torch derivative formulas: convolutions, norms and activations keep their operands"
_POSITION_BYTES = 8  # max_pool2d returns int64 positions


def kept(setup: Setup) -> Term:
    """Maps that backward needs. Full checkpointing keeps block inputs alone, and recomputes the widest block."""
    one, size = _cost(setup), setup.compute_bytes
    elements, must = one.kept, one.operands
    if setup.checkpointing != "none" and one.blocks:
        elements = min(one.block_inputs + one.widest_block, one.kept)
        must = min(one.block_inputs, one.operands)
    total = setup.micro_batch * (elements * size + one.indices * _POSITION_BYTES)
    formula = f"{setup.micro_batch} images ({setup.image[0]}x{setup.image[1]}) x {elements:,} numbers x {size} B"
    return Term("saved feature maps", total, setup.micro_batch * must * size, formula, SOURCE)


def outputs(setup: Setup) -> Term:
    """Log-probabilities in fp32, and with an older torch what they were made from."""
    one, each = _cost(setup), 8 if setup.keeps_scores else 4
    total = setup.micro_batch * one.outputs * each
    formula = f"{setup.micro_batch} images x {one.outputs:,} numbers x {each} B"
    return Term("predictions", total, 0, formula, "losses compute in fp32 and keep their log-probabilities")


def loss_temporaries(setup: Setup) -> Term:
    """Two gradients of one head's predictions: that of the log-probabilities and that of the logits."""
    one = _cost(setup)
    total = 2 * setup.micro_batch * one.widest_output * 4
    return Term(
        "loss temporaries", total, 0, "two gradients of the largest prediction", "nll_loss and log_softmax backward"
    )


_BOXES = 50  # objects in one of the fuller images of COCO
_NUMBERS_PER_PAIR = 8  # corners of the overlap (2 x 2), its width and height, its area, the overlap's share


def matching(setup: Setup) -> Term:
    """Detectors compare every candidate box with every object, one image at a time."""
    pairs = _cost(setup).candidates * _BOXES
    formula = f"{_cost(setup).candidates:,} boxes x {_BOXES} objects x {_NUMBERS_PER_PAIR} x 4 B"
    return Term("box matching", pairs * _NUMBERS_PER_PAIR * 4, 0, formula, "pairwise intersection over union")


def working(setup: Setup) -> Term:
    """The gradients of an operation's output and input where the maps are widest."""
    total = 2 * setup.micro_batch * _cost(setup).widest * setup.compute_bytes
    return Term("maps being differentiated", total, 0, "the widest map's gradient and its input's", SOURCE)


def passing(setup: Setup) -> Term:
    """Input and output of the widest operation of a forward pass."""
    total = 2 * setup.micro_batch * _cost(setup).widest * setup.compute_bytes
    return Term("maps in flight", total, total // 4, "input and output of the widest operation", SOURCE)


def _cost(setup: Setup) -> Cost:
    assert setup.facts.image_net is not None
    return cost(setup.facts.image_net, *setup.image, setup.classes)
