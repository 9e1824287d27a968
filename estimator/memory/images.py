"""Terms of a network that reads images, video or sound: `estimator.models.images` counts or has traced one sample."""

from __future__ import annotations

from estimator.memory.setup import Setup
from estimator.models.images import Cost, ImageNet, cost
from estimator.models.nets import TracedNet
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
    elif setup.checkpointing != "none":
        must = 0  # nothing says which parts are computed again
    if setup.method != "full":
        must = 0  # below what is trained nothing is kept, and nothing says where that begins
    total = setup.micro_batch * (elements * size + one.indices * _POSITION_BYTES)
    formula = f"{setup.micro_batch} samples ({_shape(setup)}) x {elements:,} numbers x {size} B"
    return Term("saved feature maps", total, setup.micro_batch * must * size, formula, SOURCE)


def _shape(setup: Setup) -> str:
    """``224x224``; of video with the frames before; of sound its samples."""
    sides = (setup.seq_len, *setup.image)
    return "x".join(str(side) for side in sides if side > 1) or "1"


def weight_copies(setup: Setup) -> Term:
    """Autocast keeps a 16-bit copy of each fp32 matrix until its backward has run."""
    one = _cost(setup)
    cast = 2 * setup.device_params if one.cast is None else one.cast
    total = cast if setup.is_amp and not setup.is_gathered and setup.method == "full" else 0
    return Term("16-bit weight copies", total, 0, f"{cast // 2:,} x 2 B", "torch.autocast caches its casts")


def late_gradients(setup: Setup) -> Term:
    """Gradients that are there when most is alive in backward: those of the last layers."""
    one = _cost(setup)
    total = one.late if setup.method == "full" and not setup.steps_in_backward else 0
    total = int(total * setup.trained_bytes / 4)
    return Term("gradients of the last layers", total, 0, f"{one.late // 4:,} x {setup.trained_bytes:g} B", SOURCE)


def outputs(setup: Setup) -> Term:
    """Log-probabilities in fp32, and with an older torch what they were made from; beside a detector's 16-bit
    predictions. A segmenter's are cast before they are resized to the image (mmseg BaseDecodeHead.losses)."""
    one, each = _cost(setup), 8 if setup.keeps_scores else 4
    if (
        setup.compute_bytes == 2
        and isinstance(setup.facts.image_net, ImageNet)
        and setup.facts.image_net.task == "detect"
    ):
        each += 2
    total = setup.micro_batch * one.outputs * each
    net = setup.facts.image_net
    units = "samples" if isinstance(net, TracedNet) and net.reads not in ("image", "sam") else "images"
    formula = f"{setup.micro_batch} {units} x {one.outputs:,} numbers x {each} B"
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
    """Detectors compare every candidate box with every object: of one image at a time, YOLO those of a batch."""
    candidates = _cost(setup).candidates * (setup.micro_batch if _cost(setup).is_matched_at_once else 1)
    pairs = candidates * _BOXES
    formula = f"{candidates:,} boxes x {_BOXES} objects x {_NUMBERS_PER_PAIR} x 4 B"
    return Term("box matching", pairs * _NUMBERS_PER_PAIR * 4, 0, formula, "pairwise intersection over union")


def working(setup: Setup) -> Term:
    """The gradients of an operation's output and input where the maps are widest."""
    total = setup.micro_batch * _cost(setup).working * setup.compute_bytes
    return Term("maps being differentiated", total, 0, "the widest map's gradient and its input's", SOURCE)


def shared_gradients(setup: Setup) -> Term:
    """Of a pyramid that regions are cut from: all levels' are there, in fp32 as the boxes are, before those of the
    proposals are added to them (mmcv, torchvision and detectron2 align regions in fp32; a cast back follows)."""
    each = 4 + (2 if setup.compute_bytes == 2 else 0)
    total = setup.micro_batch * _cost(setup).shared * each
    formula = f"{setup.micro_batch} images x {_cost(setup).shared:,} numbers x {each} B"
    return Term("gradients of the pyramid", total, 0, formula, "roi_align backward fills a map per level")


def layouts(setup: Setup) -> Term:
    """Tensor cores read channels last: cuDNN copies input and output of a 16-bit convolution in its workspace."""
    total = 2 * setup.micro_batch * _cost(setup).widest * 2 if setup.compute_bytes == 2 and setup.copies_layouts else 0
    return Term(
        "layout copies", total, 0, "the widest map's and its input's", "cuDNN nchwToNhwc before tensor-core kernels"
    )


def passing(setup: Setup) -> Term:
    """Input and output of the widest operation of a forward pass."""
    one, widest = _cost(setup), 2 * setup.micro_batch * _cost(setup).widest * setup.compute_bytes
    total = widest if not setup.is_training else setup.micro_batch * one.passing * setup.compute_bytes
    return Term("maps in flight", total, widest // 4, "input and output of the widest operation", SOURCE)


def _cost(setup: Setup) -> Cost:
    assert setup.facts.image_net is not None
    precision = "fp32" if setup.precision == "fp32" else "amp" if setup.is_amp and not setup.is_gathered else "half"
    return cost(setup.facts.image_net, *setup.image, setup.classes, precision, setup.seq_len)
