"""Networks that read images, video or sound by name, and what one sample of a size costs.

Those of public libraries were traced (`estimator.models.nets`); of the others an id says which backbone, neck and head
it means, and a program counts them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from estimator.models import nets
from estimator.models.backbones import BUILDERS, Training
from estimator.models.detectors import detector
from estimator.models.feature_maps import Map, Tape
from estimator.models.nets import TracedNet
from estimator.models.segmenters import segmenter
from estimator.tables import document


@dataclass(frozen=True, slots=True)
class ImageNet:
    """One network: indices into the rows of ``vision.toml``, and what the id itself says."""

    name: str
    backbone: int
    head: int | None
    framework: int
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def task(self) -> str:
        """``classify``, ``detect`` or ``segment``."""
        return "classify" if self.head is None else str(_rows("head")[self.head]["task"])


AnyNet = ImageNet | TracedNet


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one image: parameters and those trained, elements kept for backward, of them operands of trained layers,
    int64 positions, elements of the maps that the loss reads, the widest map, those that several heads read, and
    blocks for checkpointing."""

    params: int
    trained: int
    kept: int
    operands: int
    indices: int
    outputs: int
    widest_output: int
    widest: int
    candidates: int
    blocks: int
    block_inputs: int
    widest_block: int
    working: int  # above what is kept, when most is alive in backward
    passing: int  # above what is kept, in forward
    wide: int = 0  # of the kept, in fp32 under autocast: as much again in 16-bit numbers
    shared: int = 0
    late: int = 0  # bytes of gradients that are there when most is alive
    cast: int | None = None  # bytes of weights that autocast copies; None: of all
    is_matched_at_once: bool = False  # the boxes of all images of a batch


def readings(name: str) -> tuple[AnyNet, ...]:
    """The networks that an id may mean, the likeliest first: traced ones, else what the patterns make of it. Where both
    are one backbone with the same parameters, the program: it knows blocks as well."""
    traced, found = nets.find(name), find(name)
    if not traced:
        return () if found is None else (found,)
    if found is None or found.head is not None or not is_whole(found):
        return traced
    counted = _programmed(found, USUAL_SIDE, USUAL_SIDE, classes_of(found)[0])
    return (found,) if counted.params == traced[0].params else traced


def find(name: str) -> ImageNet | None:
    """The network that the words of an id name, or None: the table's patterns are tried in order, the head's, then the
    backbone's."""
    text = re.sub(r"[\s/_\-]+", "_", name.strip().lower())
    framework = next(index for index, row in enumerate(_rows("framework")) if re.search(row["pattern"], text or "_"))
    head = _first("head", text)
    is_more = _rows("framework")[framework].get("is_never_classifier") or _first("more", text) is not None
    if head is None and is_more:
        return None
    backbone = _first("backbone", text)
    if backbone is None and head is not None:
        standard = _rows("head")[head[0]].get("backbone")
        backbone = _first("backbone", standard) if standard else None
    if backbone is None or (head is None and not _rows("backbone")[backbone[0]].get("is_classifier", True)):
        return None
    said = [item for found in (head, backbone) if found for item in found[1].items() if item[1]]
    sizes = {key: int(value) if value.isdigit() else 1 for key, value in said}
    return ImageNet(name, backbone[0], head[0] if head else None, framework, tuple(sorted(sizes.items())))


def is_whole(net: ImageNet) -> bool:
    """Whether the id is the name of its backbone and says nothing else (``resnet50_clip`` pools with attention)."""
    text = re.sub(r"[\s_\-]+", "_", net.name.strip().lower().rpartition("/")[2].split(".")[0])
    return re.fullmatch(_rows("backbone")[net.backbone]["pattern"], text) is not None


def is_of_its_time(net: AnyNet) -> bool:
    """Whether it is of a framework whose models were trained with torch 1.3 to 1.8 and cuDNN 7."""
    return not isinstance(net, TracedNet) and bool(_rows("framework")[net.framework].get("is_of_its_time"))


def is_rough(net: AnyNet) -> bool:
    """Whether the id says more than the network counted: boxes in space, from the cameras of a car."""
    return not isinstance(net, TracedNet) and bool(_rows("framework")[net.framework].get("is_rough"))


USUAL_SIDE = 224
_CLASSES = {"classify": (1000,), "detect": (80,), "segment": (21, 19, 150)}


def classes_of(net: AnyNet, size: tuple[int, int] | None = None) -> tuple[int, ...]:
    """How many classes a network of this task plausibly has, the likeliest first: ImageNet; COCO; Pascal VOC,
    Cityscapes, ADE20K. Segmenters are trained on crops whose size belongs to a dataset."""
    if net.task == "segment" and size is not None:
        for row in _rows("dataset"):
            if list(size) in row["sizes"]:
                return tuple(row["classes"])
    if isinstance(net, TracedNet):
        usual = _CLASSES["segment"] if net.task == "segment" else ()
        return tuple(dict.fromkeys((net.classes, *usual)))
    return _CLASSES[net.task]


def describe(net: AnyNet) -> str:
    """Where its counts come from."""
    if isinstance(net, TracedNet):
        return f"traced: {net.source}" + (f", {net.variant}" if net.variant else "")
    parts = [_rows("backbone")[net.backbone]]
    if net.head is not None:
        parts.append(_rows("head")[net.head])
    return f"layer program: {'; '.join(dict.fromkeys(str(part['source']) for part in parts))}"


def padded(net: AnyNet, height: int, width: int) -> tuple[int, int]:
    """The size a batch is padded to: detectors pad to multiples of 32, the stride of their coarsest backbone map; SAM
    to the square that it was trained on."""
    if isinstance(net, TracedNet) and net.reads == "sam":
        return net.side
    if net.task != "detect":
        return height, width
    return -(-height // 32) * 32, -(-width // 32) * 32


def _first(table: str, text: str) -> tuple[int, dict[str, str]] | None:
    for index, row in enumerate(_rows(table)):
        if match := re.search(rf"(?:^|_){row['pattern']}(?=_|$|\.)", text):
            return index, match.groupdict()
    return None


def _rows(table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document("vision")[table]
    return found


def cost(net: AnyNet, height: int, width: int, classes: int, precision: str = "fp32", length: int = 1) -> Cost:
    """What one image of `height` x `width` pixels costs; of video or sound, `length` frames or samples."""
    if isinstance(net, TracedNet):
        return _traced(net, height * width * length, classes, precision)
    found = _programmed(net, height, width, classes)
    return replace(found, kept=found.kept + found.wide) if precision == "amp" else found


_NUMBER = {"fp32": 4, "amp": 2, "half": 2}
_BOX_STRIDES = (8, 16, 32)  # of the maps that YOLO's boxes are on


def _traced(net: TracedNet, units: int, classes: int, precision: str) -> Cost:
    """Counts are in numbers of the precision, whatever they were traced in."""
    regime, size = net.regime(precision), _NUMBER[precision]
    outputs = net.outputs * units
    if net.task == "segment" and net.classes:  # a loss reads one map per head and class at the image's size
        outputs = max(round(net.outputs / net.classes), 1) * classes * units
    has_boxes = net.task == "detect" and net.library == "ultralytics"
    return Cost(
        params=net.params, trained=net.trained, kept=int(regime.kept(units) / size),
        operands=int(net.operands * units), indices=0, outputs=int(outputs), widest_output=int(outputs),
        widest=int(net.widest * units), blocks=0, block_inputs=0, widest_block=0,
        candidates=sum(units // stride**2 for stride in _BOX_STRIDES) if has_boxes else 0,
        working=int(regime.working * units / size), passing=int(regime.passing * units / size), late=net.late,
        cast=net.cast, is_matched_at_once=has_boxes,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _programmed(net: ImageNet, height: int, width: int, classes: int) -> Cost:
    tape, image = Tape(), Map(3, height, width)
    spec = _spec(net)
    stages = BUILDERS[spec["builder"]](tape, image, spec, _training(net))
    if net.head is None:
        _classify(tape, stages[-1], spec, classes)
    else:
        head = {**_rows("head")[net.head], **_rows("framework")[net.framework].get("head", {})}
        if net.task == "detect":
            detector(tape, stages, {**spec, **head})
        else:
            segmenter(tape, image, stages, head, classes)
    return Cost(
        params=tape.params, trained=tape.trained, kept=tape.kept, operands=tape.operands, indices=tape.indices,
        outputs=sum(each.elements for each in tape.outputs),
        widest_output=max((each.elements for each in tape.outputs), default=0), widest=tape.widest, shared=tape.shared,
        candidates=tape.candidates, blocks=tape.blocks,
        block_inputs=tape.block_inputs, widest_block=tape.widest_block, working=2 * tape.widest,
        passing=2 * tape.widest, wide=tape.wide,
    )  # fmt: skip


def _spec(net: ImageNet) -> dict[str, Any]:
    """The backbone's row, what the head or the framework changes of it, and the numbers in the id."""
    row, framework = _rows("backbone")[net.backbone], _rows("framework")[net.framework]
    head: Mapping[str, Any] = {} if net.head is None else _rows("head")[net.head]
    changed = {**row, **framework.get("backbone", {}), **head.get("changes", {})}
    for mark, change in _marks(net, changed):
        if re.search(mark, net.name.lower()):
            changed.update(change)
    for key, value in net.sizes:
        changed[key] = value / 100 if key.endswith("_percent") else value
    return changed


def _marks(net: ImageNet, spec: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    rows = [row for row in _rows("mark") if row["builder"] == spec["builder"] and net.task in row["tasks"]]
    return [(row["pattern"], row["changes"]) for row in rows]


def _training(net: ImageNet) -> Training:
    row = _rows("framework")[net.framework]
    found: Mapping[str, Any] = row.get(net.task, {})
    strides_first = any(re.search(mark, net.name.lower()) for mark in row.get("strides_first", []))
    frozen = int(found.get("frozen_stages", -1))
    if _rows("backbone")[net.backbone]["builder"] == "hrnet":
        frozen = -1
    return Training(frozen_stages=frozen, norm=str(found.get("norm", "batch")), strides_first=strides_first)


def _classify(tape: Tape, last: Map, spec: Mapping[str, Any], classes: int) -> None:
    """Pooling to one vector (VGG: to 7x7), and linear layers."""
    width = last.channels * spec.get("pooled", 1) ** 2
    for hidden in spec.get("hidden", ()):
        width = tape.linear(1, width, hidden, act="relu")
    tape.linear(1, width, classes)
