"""Decode heads of semantic segmentation as programs over a `Tape`. The loss reads the logits at the image's size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from estimator.models.feature_maps import Map, Tape

_AUXILIARY = 256


def segmenter(tape: Tape, image: Map, stages: Sequence[Map], spec: Mapping[str, Any], classes: int) -> None:
    """Decode head and auxiliary head. Every head's logits, resized to the image, become outputs of the tape."""
    usual = 512 if stages[-1].channels >= 1024 or spec["head"] == "contextual" else 128
    width = spec.get("width", usual)
    heads = [_HEADS[spec["head"]](tape, stages, spec, width, classes)]
    if spec["head"] != "contextual":
        heads.append(tape.unit(stages[-2], min(spec.get("auxiliary", _AUXILIARY), stages[-2].channels), 3))
    for features in heads:
        tape.conv(features, classes, 1, has_bias=True)
        tape.outputs.append(tape.made(classes, image.height, image.width))


def _head_of(tape: Tape, given: Map, width: int, depth: int, joined: int) -> Map:
    """`depth` convolutions, and one over their result beside `joined` more channels of the same size."""
    found = given
    for _ in range(depth):
        found = tape.unit(found, width, 3)
    return tape.unit(tape.like(found, width + joined), width, 3) if joined else found


def _full(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any], width: int, classes: int) -> Map:
    """FCN as the frameworks train it (two convolutions and one over the concatenation), or with attention between."""
    last = stages[-1]
    found = tape.unit(last, width, 3)
    if spec.get("is_short"):
        return found
    for _ in range(spec.get("attentions", 1 if spec.get("scores") else 0)):
        found = _attention(tape, found, spec["scores"])
    return _head_of(tape, found, width, 1, last.channels if spec.get("joins", True) else 0)


def _attention(tape: Tape, given: Map, scores: str) -> Map:
    """Self-attention over positions: ``full`` scores every pair, ``cross`` only those of a row or column."""
    pixels = given.height * given.width
    keys = pixels if scores == "full" else given.height + given.width
    inner = max(given.channels // 8, 1)
    tape.weigh(given.channels * (2 * inner + given.channels))
    tape.operand(given)
    for channels in (inner, inner, given.channels):
        tape.keep(tape.like(given, channels))
    tape.keep(tape.made(keys, given.height, given.width))
    tape.made(keys, given.height, given.width)
    return tape.like(given)


def _pooled(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any], width: int, classes: int) -> Map:
    """PSPNet (Zhao et al. 2017): four pooled scales beside the features."""
    last = stages[-1]
    tape.weigh(4 * (last.channels * width + 2 * width))
    return tape.unit(tape.like(last, last.channels + 4 * width), width, 3)


def _atrous(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any], width: int, classes: int) -> Map:
    """DeepLabV3 (Chen et al. 2017): five branches, three of them dilated 3x3, concatenated and mixed."""
    last = stages[-1]
    is_separable = bool(spec.get("is_separable"))
    tape.unit(tape.made(last.channels, 1, 1), width, 1)
    tape.unit(last, width, 1)
    for _ in range(3):
        given = tape.unit(last, last.channels, 3, 1, last.channels) if is_separable else last
        tape.unit(given, width, 1 if is_separable else 3)
    mixed = tape.unit(tape.like(last, 5 * width), width, 3)
    return _refined(tape, mixed, stages[0], width) if is_separable else mixed


def _refined(tape: Tape, given: Map, fine: Map, width: int) -> Map:
    """The decoder of DeepLabV3+ (Chen et al. 2018): upsampled beside fine features, two separable convolutions."""
    low = tape.unit(fine, 48 if width >= 512 else 12, 1)
    found = tape.like(low, given.channels + low.channels)
    for _ in range(2):
        found = tape.unit(tape.unit(found, found.channels, 3, 1, found.channels), width, 1)
    return found


def _pyramidal(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any], width: int, classes: int) -> Map:
    """UPerNet (Xiao et al. 2018): pooled scales on the coarsest stage, a pyramid, all levels fused at the finest."""
    laterals = [tape.unit(stage, width, 1) for stage in stages[:-1]]
    laterals.append(_pooled(tape, stages, spec, width, classes))
    levels = [tape.unit(lateral, width, 3) for lateral in laterals[:-1]]
    return tape.unit(tape.like(levels[0], 4 * width), width, 3)


def _contextual(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any], width: int, classes: int) -> Map:
    """OCRNet (Yuan et al. 2020) over one map: an FCN head's classes pool the pixels, and pixels attend to classes."""
    if len({(stage.height, stage.width) for stage in stages}) > 1 and stages[0].channels < 256:
        given = tape.concat(*(tape.resized(stage, stages[0]) for stage in stages))  # the branches of an HRNet
    else:
        given = stages[-1]
    coarse = tape.unit(given, given.channels if given is not stages[-1] else 256, 1)
    tape.outputs.append(tape.made(classes, given.height * 4, given.width * 4))
    pixels = tape.unit(given, width, 3)
    inner = width // 2
    found = tape.unit(tape.unit(pixels, inner, 1), inner, 1)
    tape.keep(tape.like(found, classes))
    context = tape.unit(tape.keep(tape.like(found)), width, 1)
    tape.conv(coarse, classes, 1, has_bias=True)
    return tape.unit(tape.like(context, 2 * width), width, 1)


_HEADS = {
    "full": _full, "pooled": _pooled, "atrous": _atrous, "pyramidal": _pyramidal, "contextual": _contextual,
}  # fmt: skip
