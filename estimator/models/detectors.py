"""Necks and heads of detectors as programs over a `Tape`, and what their losses hold beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from estimator.models.backbones import cross_stage
from estimator.models.feature_maps import Map, Tape

_WIDTH = 256
_PROPOSALS = 512  # regions per image that train the second stage (Faster R-CNN with FPN, every framework's default)
_POSITIVE = 0.25
_CLASSES = 80


def detector(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any]) -> None:
    """Neck and heads; the maps that the loss reads become the tape's outputs."""
    _HEADS[spec["head"]](tape, stages, spec)


def _pyramid(tape: Tape, stages: Sequence[Map], extra: str, width: int = _WIDTH) -> list[Map]:
    """Feature pyramid (Lin et al. 2017) with `extra` levels: one by ``pool``, or two convolutions that start at the
    backbone's last stage (``input``) or the pyramid's last level (``output``)."""
    laterals = [tape.conv(stage, width, 1, has_bias=True) for stage in stages]
    levels = [tape.conv(lateral, width, 3, has_bias=True) for lateral in laterals]
    last = levels[-1]
    if extra == "pool":
        levels.append(tape.made(width, -(-last.height // 2), -(-last.width // 2)))
    if extra != "pool":
        levels.append(tape.conv(stages[-1] if extra == "input" else last, width, 3, 2, has_bias=True))
        levels.append(tape.conv(levels[-1], width, 3, 2, has_bias=True))
    return levels


def _two_stage(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any]) -> None:
    levels = _merged(tape, stages) if spec.get("neck") == "hr" else _pyramid(tape, stages, "pool")
    tape.shared = sum(level.elements for level in levels[:-1])  # regions are cut from all but the coarsest
    weighed = tape.params
    for level in levels:  # one set of weights for all levels
        hidden = tape.activation(tape.conv(level, _WIDTH, 3, has_bias=True))
        tape.outputs += [tape.conv(hidden, 3, 1, has_bias=True), tape.conv(hidden, 12, 1, has_bias=True)]
    _shared(tape, weighed, len(levels))
    tape.candidates = 3 * sum(level.height * level.width for level in levels)
    for _ in range(spec.get("stages", 1)):
        width = tape.linear(_PROPOSALS, _WIDTH * 49, 1024, act="relu")
        width = tape.linear(_PROPOSALS, width, 1024, act="relu")
        tape.linear(_PROPOSALS, width, _CLASSES + 1)
        tape.linear(_PROPOSALS, width, 4 * _CLASSES)
        if spec.get("has_masks"):
            _mask_head(tape)


def _shared(tape: Tape, before: int, uses: int) -> None:
    """Weights that every level used were counted once per use: count them once."""
    added = tape.params - before
    tape.params -= added - added // uses
    tape.trained -= added - added // uses


def _mask_head(tape: Tape) -> None:
    """Four convolutions, a deconvolution and one mask per class over the positive regions (He et al. 2017)."""
    regions = int(_PROPOSALS * _POSITIVE)
    found = tape.made(_WIDTH * regions, 14, 14)
    for _ in range(4):
        tape.weigh(_WIDTH * _WIDTH * 9 + _WIDTH)
        tape.operand(found)
        found = tape.activation(tape.made(_WIDTH * regions, 14, 14))
    tape.operand(found)
    large = tape.activation(tape.made(_WIDTH * regions, 28, 28))
    tape.weigh(_WIDTH * _WIDTH * 4 + _WIDTH + _WIDTH * _CLASSES + _CLASSES)
    tape.operand(large)
    tape.outputs.append(tape.made(_CLASSES * regions, 28, 28))


def _merged(tape: Tape, stages: Sequence[Map]) -> list[Map]:
    """HRNetV2p: all branches at the finest resolution, mixed, then pooled to the levels of a pyramid."""
    joined = tape.concat(*(tape.resized(stage, stages[0]) for stage in stages))
    mixed = tape.conv(joined, _WIDTH, 1, has_bias=True)
    sizes = [mixed]
    for _ in range(4):
        sizes.append(tape.made(_WIDTH, -(-sizes[-1].height // 2), -(-sizes[-1].width // 2)))
    return [tape.conv(each, _WIDTH, 3, has_bias=True) for each in sizes]


def _dense(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any]) -> None:
    """RetinaNet (Lin et al. 2017) and FCOS (Tian et al. 2019): two towers of four convolutions on every level."""
    if spec.get("neck") == "hr":
        levels = _merged(tape, stages)
    else:
        levels = _pyramid(tape, stages[1:], spec.get("extra_levels", "input"))
    before, anchors = tape.params, spec["anchors"]
    for level in levels:
        for channels in (anchors * _CLASSES, anchors * 4 + spec.get("extra_outputs", 0)):
            found = level
            for _ in range(4):
                found = tape.unit(found, _WIDTH, 3, norm=spec.get("norm", "none"))
            tape.outputs.append(tape.conv(found, channels, 3, has_bias=True))
    _shared(tape, before, len(levels))
    tape.candidates = anchors * sum(level.height * level.width for level in levels)


def _queries(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any]) -> None:
    """DETR (Carion et al. 2020): six encoder layers over the coarsest map, six decoder layers of 100 queries."""
    last = tape.conv(stages[-1], _WIDTH, 1, has_bias=True)
    tokens, queries, heads, wide = last.height * last.width, 100, 8, 2048
    for own, other in ((tokens, 0),) * 6 + ((queries, tokens),) * 6:
        for keys in (own, other) if other else (own,):
            tape.weigh(4 * _WIDTH * _WIDTH + 4 * _WIDTH)
            kept = own * _WIDTH * 3 + keys * _WIDTH * 3 + 3 * heads * own * keys  # scores, dropout and its mask
            tape.kept += kept
            tape.operands += (own + keys) * _WIDTH
        tape.weigh(2 * _WIDTH * wide + wide + _WIDTH)
        tape.kept += own * (2 * wide + 3 * _WIDTH)
        tape.operands += own * wide
        tape.widest = max(tape.widest, heads * own * own)
    tape.outputs.append(tape.made(_CLASSES + 5, queries, 6))


def _aggregated(tape: Tape, stages: Sequence[Map], depth: float) -> tuple[Map, Map, Map]:
    """The neck of YOLOv5 6.x and YOLOX: a path aggregation of cross-stage blocks, finest level first."""
    repeats = max(round(3 * depth), 1)
    fine, middle, coarse = stages[1:]
    up = tape.unit(coarse, middle.channels, 1, act="silu")
    inner = cross_stage(tape, tape.concat(tape.resized(up, middle), middle), middle.channels, repeats)
    across = tape.unit(inner, fine.channels, 1, act="silu")
    first = cross_stage(tape, tape.concat(tape.resized(across, fine), fine), fine.channels, repeats)
    down = tape.unit(first, fine.channels, 3, 2, act="silu")
    second = cross_stage(tape, tape.concat(down, across), middle.channels, repeats)
    down = tape.unit(second, middle.channels, 3, 2, act="silu")
    return first, second, cross_stage(tape, tape.concat(down, up), coarse.channels, repeats)


def _anchored(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any]) -> None:
    """YOLOv5 6.x: one convolution per level for the boxes."""
    levels = _aggregated(tape, stages, spec["depth"])
    masks = 32 if spec.get("has_masks") else 0
    for level in levels:
        tape.outputs.append(tape.conv(level, 3 * (_CLASSES + 5 + masks), 1, has_bias=True))
    if masks:
        wide = tape.unit(levels[0], 256, 3, act="silu")
        finer = tape.made(256, 2 * wide.height, 2 * wide.width)
        tape.outputs.append(tape.unit(tape.unit(finer, 256, 3, act="silu"), masks, 1, act="silu"))


def _decoupled(tape: Tape, stages: Sequence[Map], spec: Mapping[str, Any]) -> None:
    """YOLOX (Ge et al. 2021): per level two convolutions for classes, two for boxes and whether there is one."""
    levels = _aggregated(tape, stages, spec["depth"])
    for level in levels:
        stem = tape.unit(level, round(_WIDTH * spec["width"]), 1, act="silu")
        for outputs in ((_CLASSES,), (4, 1)):
            found = stem
            for _ in range(2):
                found = tape.unit(found, stem.channels, 3, act="silu")
            tape.outputs += [tape.conv(found, channels, 1, has_bias=True) for channels in outputs]
    tape.candidates = sum(level.height * level.width for level in levels)


_HEADS = {"two-stage": _two_stage, "dense": _dense, "queries": _queries, "anchored": _anchored,
          "decoupled": _decoupled}  # fmt: skip
