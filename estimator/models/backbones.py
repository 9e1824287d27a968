"""Convolutional backbones as programs over a `Tape`: each returns its feature maps, finest first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from estimator.models.feature_maps import Map, Tape


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How a framework trains a backbone. `frozen_stages`: how many stages after the stem (with it) get no gradient;
    -1 trains all. `norm`: see `Tape.norm`. `strides_first`: the stride of a bottleneck is in its 1x1 convolution."""

    frozen_stages: int = -1
    norm: str = "batch"
    strides_first: bool = False


def resnet(tape: Tape, image: Map, spec: Mapping[str, Any], how: Training) -> list[Map]:
    """ResNet, ResNeXt, Wide ResNet, ResNet-D stems, dilated variants and ResNeSt.

    He et al. 2015, table 1; Xie et al. 2017, table 1; Zhang et al. 2020 (split attention).
    """
    strides = spec.get("strides", (1, 2, 2, 2))
    with tape.frozen(how.frozen_stages >= 0):
        found = tape.max_pool(_stem(tape, image, spec, how.norm))
    stages: list[Map] = []
    for index, (depth, stride) in enumerate(zip(spec["depths"], strides, strict=True)):
        with tape.frozen(index < how.frozen_stages):
            for block in range(depth):
                with tape.block(found):
                    found = _residual(tape, found, 64 << index, stride if block == 0 else 1, spec, how)
        stages.append(found)
    return stages


def _stem(tape: Tape, image: Map, spec: Mapping[str, Any], norm: str) -> Map:
    """One 7x7 convolution, or three 3x3 ones."""
    width = spec.get("deep_stem", 0)
    if not width:
        return tape.unit(image, 64, 7, 2, norm=norm)
    found = tape.unit(image, width, 3, 2, norm=norm)
    return tape.unit(tape.unit(found, width, 3, norm=norm), 2 * width, 3, norm=norm)


def _residual(tape: Tape, given: Map, planes: int, stride: int, spec: Mapping[str, Any], how: Training) -> Map:
    if not spec["bottleneck"]:
        out = planes
        found = tape.unit(given, planes, 3, stride, norm=how.norm)
    else:
        out = 4 * planes
        groups = spec.get("groups", 1)
        width = planes * spec.get("width", 64) // 64 * groups
        first = stride if how.strides_first and groups == 1 else 1
        found = tape.unit(given, width, 1, first, norm=how.norm)
        found = _middle(tape, found, width, stride // first, groups, spec.get("radix", 0), how.norm)
    last = tape.norm(tape.conv(found, out, 3 if not spec["bottleneck"] else 1), how.norm)
    if stride != 1 or given.channels != out:
        _shortcut(tape, given, out, stride, spec, how.norm)
    return tape.activation(last)


def _middle(tape: Tape, given: Map, width: int, stride: int, groups: int, radix: int, norm: str) -> Map:
    """The 3x3 convolution; with split attention, `radix` of it weighed by what a small network says of their sum."""
    if not radix:
        return tape.unit(given, width, 3, stride, groups, norm=norm)
    split = tape.unit(given, width * radix, 3, 1, groups * radix, norm=norm)
    inner = max(width * radix // 4, 32)
    tape.weigh(width * inner + inner * width * radix + 3 * inner)
    weighed = tape.like(split)  # each part times its weight
    pooled = tape.like(weighed, width)
    if stride == 1:
        return pooled
    tape.keep(pooled)
    return tape.made(width, -(-pooled.height // stride), -(-pooled.width // stride))


def _shortcut(tape: Tape, given: Map, out: int, stride: int, spec: Mapping[str, Any], norm: str) -> None:
    """The projection of a residual block; ResNet-D pools before it."""
    if spec.get("pools_shortcut") and stride > 1:
        given = tape.made(given.channels, -(-given.height // stride), -(-given.width // stride))
        stride = 1
    tape.norm(tape.conv(given, out, 1, stride), norm)


def regnet(tape: Tape, image: Map, spec: Mapping[str, Any], how: Training) -> list[Map]:
    """RegNetX and RegNetY (Radosavovic et al. 2020, equations 2 to 4)."""
    with tape.frozen(how.frozen_stages >= 0):
        found = tape.unit(image, 32, 3, 2, norm=how.norm)
    stages: list[Map] = []
    for index, (width, depth) in enumerate(_regnet_stages(spec)):
        with tape.frozen(index < how.frozen_stages):
            for block in range(depth):
                with tape.block(found):
                    found = _regnet_block(tape, found, width, 2 if block == 0 else 1, spec, how.norm)
        stages.append(found)
    return stages


def _regnet_block(tape: Tape, given: Map, width: int, stride: int, spec: Mapping[str, Any], norm: str) -> Map:
    groups = max(width // min(spec["group_width"], width), 1)
    found = tape.unit(tape.unit(given, width, 1, norm=norm), width, 3, stride, groups, norm=norm)
    if spec.get("squeezes"):
        inner = given.channels // 4
        tape.weigh(2 * width * inner + inner + width)
        tape.keep(found)
        found = tape.like(found)
    last = tape.norm(tape.conv(found, width, 1), norm)
    if stride != 1 or given.channels != width:
        tape.norm(tape.conv(given, width, 1, stride), norm)
    return tape.activation(last)


def _regnet_stages(spec: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Widths and depths of the stages: per-block widths on a line, rounded to powers of `multiplier`."""
    counted: dict[int, int] = {}
    group = spec["group_width"]
    for block in range(spec["depth"]):
        line = spec["initial_width"] + spec["slope"] * block
        power = round(math.log(line / spec["initial_width"], spec["multiplier"]))
        width = int(round(spec["initial_width"] * spec["multiplier"] ** power / 8) * 8)
        bound = min(group, width)
        width = int(round(width / bound) * bound)
        counted[width] = counted.get(width, 0) + 1
    return list(counted.items())


def hrnet(tape: Tape, image: Map, spec: Mapping[str, Any], how: Training) -> list[Map]:
    """HRNetV2 (Sun et al. 2019): branches of halving resolution that exchange after every module."""
    width, norm = spec["width"], how.norm
    found = tape.unit(tape.unit(image, 64, 3, 2, norm=norm), 64, 3, 2, norm=norm)
    for _ in range(spec["stage1_blocks"]):
        with tape.block(found):
            found = _residual(tape, found, 64, 1, {"bottleneck": True}, how)
    branches = [found]
    for stage, modules in enumerate(spec["modules"], start=2):
        branches = _transition(tape, branches, [width << index for index in range(stage)], norm)
        for _ in range(modules):
            branches = [_basic_chain(tape, branch, spec["blocks"], how) for branch in branches]
            branches = _exchange(tape, branches, norm)
    return branches


def _transition(tape: Tape, given: Sequence[Map], widths: Sequence[int], norm: str) -> list[Map]:
    kept = [
        tape.unit(branch, width, 3, norm=norm) if branch.channels != width else branch
        for branch, width in zip(given, widths, strict=False)
    ]
    return [*kept, tape.unit(given[-1], widths[-1], 3, 2, norm=norm)]


def _basic_chain(tape: Tape, given: Map, blocks: int, how: Training) -> Map:
    for _ in range(blocks):
        with tape.block(given):
            given = _residual(tape, given, given.channels, 1, {"bottleneck": False}, how)
    return given


def _exchange(tape: Tape, given: Sequence[Map], norm: str) -> list[Map]:
    """Every branch to every other: coarser ones by 1x1 and upsampling, finer ones by 3x3 steps of two."""
    result: list[Map] = []
    for to, target in enumerate(given):
        for come, source in enumerate(given):
            if come > to:
                tape.norm(tape.conv(source, target.channels, 1), norm)
            for step in range(come, to):
                is_last = step == to - 1
                channels = target.channels if is_last else source.channels
                source = tape.unit(source, channels, 3, 2, norm=norm, act="none" if is_last else "relu")
        result.append(tape.activation(tape.like(target)))
    return result


def plain(tape: Tape, image: Map, spec: Mapping[str, Any], how: Training) -> list[Map]:
    """VGG (Simonyan and Zisserman 2014, table 1): stages of 3x3 convolutions with a max pool behind each."""
    found, stages = image, []
    for depth, channels in zip(spec["depths"], spec["channels"], strict=True):
        for _ in range(depth):
            made = tape.conv(found, channels, 3, has_bias=True)
            found = tape.activation(tape.norm(made, "batch" if spec.get("has_norm") else "none"))
        found = tape.max_pool(found)
        stages.append(found)
    return stages


def inverted(tape: Tape, image: Map, spec: Mapping[str, Any], how: Training) -> list[Map]:
    """MobileNetV2 and EfficientNet: expand, depthwise, (squeeze), project (Sandler et al. 2018; Tan and Le 2019)."""
    act, norm = spec["act"], how.norm
    found = tape.unit(image, _round(spec["stem"] * spec.get("width", 1.0)), 3, 2, norm=norm, act=act)
    stages: list[Map] = []
    for expansion, channels, repeats, stride, kernel in spec["stages"]:
        out = _round(channels * spec.get("width", 1.0))
        for block in range(-(-int(repeats * spec.get("depth", 1.0) * 1000) // 1000)):
            with tape.block(found):
                found = _inverted_block(tape, found, out, expansion, stride if block == 0 else 1, kernel, spec, norm)
        stages.append(found)
    last = _round(spec["last"] * max(spec.get("width", 1.0), 1.0))
    stages[-1] = tape.unit(found, last, 1, norm=norm, act=act)
    return stages


def _inverted_block(
    tape: Tape, given: Map, out: int, expansion: int, stride: int, kernel: int, spec: Mapping[str, Any], norm: str
) -> Map:
    act, inner = spec["act"], given.channels * expansion
    found = given if expansion == 1 else tape.unit(given, inner, 1, norm=norm, act=act)
    found = tape.unit(found, inner, kernel, stride, inner, norm=norm, act=act)
    if spec.get("squeezes"):
        small = max(given.channels // 4, 1)
        tape.weigh(2 * inner * small + inner + small)
        tape.keep(found)
        found = tape.like(found)
    return tape.norm(tape.conv(found, out, 1), norm)


def _round(channels: float) -> int:
    """To a multiple of eight, never losing more than a tenth."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def convnext(tape: Tape, image: Map, spec: Mapping[str, Any], how: Training) -> list[Map]:
    """ConvNeXt (Liu et al. 2022): depthwise 7x7, layer norm, two pointwise layers with a GELU, layer scale."""
    found = tape.norm(tape.conv(image, spec["channels"][0], 4, 4, has_bias=True), "layer")
    stages: list[Map] = []
    for index, (depth, channels) in enumerate(zip(spec["depths"], spec["channels"], strict=True)):
        if index:
            found = tape.conv(tape.norm(found, "layer"), channels, 2, 2, has_bias=True)
        for _ in range(depth):
            with tape.block(found):
                inner = tape.norm(tape.conv(found, channels, 7, 1, channels, has_bias=True), "layer")
                wide = tape.activation(tape.conv(inner, 4 * channels, 1, has_bias=True), "gelu")
                tape.keep(tape.conv(wide, channels, 1, has_bias=True))  # times a trained scale per channel
                tape.weigh(channels)
                found = tape.like(found)
        stages.append(found)
    tape.norm(tape.made(found.channels, 1, 1), "layer")  # over the pooled vector
    return stages


def densenet(tape: Tape, image: Map, spec: Mapping[str, Any], how: Training) -> list[Map]:
    """DenseNet (Huang et al. 2017): every layer reads the concatenation of all before it."""
    growth = spec["growth"]
    found, stages = tape.max_pool(tape.unit(image, 2 * growth, 7, 2)), []
    for index, depth in enumerate(spec["depths"]):
        for _ in range(depth):
            with tape.block(found):
                inner = tape.conv(tape.activation(tape.norm(found)), 4 * growth, 1)
                new = tape.conv(tape.activation(tape.norm(inner)), growth, 3)
                found = tape.concat(found, new)
        if index < len(spec["depths"]) - 1:
            half = tape.conv(tape.activation(tape.norm(found)), found.channels // 2, 1)
            found = tape.made(half.channels, half.height // 2, half.width // 2)
        stages.append(found)
    tape.activation(tape.norm(found))
    return stages


def csp(tape: Tape, image: Map, spec: Mapping[str, Any], how: Training) -> list[Map]:
    """The backbone of YOLOv5 6.x and YOLOX: strided convolutions and cross-stage partial blocks, SiLU throughout.
    YOLOX begins with the four pixels of a square side by side, and pools before its last block (Ge et al. 2021)."""
    width, depth, is_early = spec["width"], spec["depth"], spec.get("is_focused", False)
    if is_early:
        found = tape.unit(tape.made(12, -(-image.height // 2), -(-image.width // 2)), round(64 * width), 3, act="silu")
    else:
        found = tape.unit(image, round(64 * width), 6, 2, act="silu")
    stages: list[Map] = []
    for channels, repeats in zip((128, 256, 512, 1024), spec.get("repeats", (3, 6, 9, 3)), strict=True):
        found = tape.unit(found, round(channels * width), 3, 2, act="silu")
        if is_early and channels == 1024:
            found = _pyramid_pool(tape, found)
        found = cross_stage(tape, found, found.channels, max(round(repeats * depth), 1))
        stages.append(found)
    if not is_early:
        stages[-1] = _pyramid_pool(tape, found)
    return stages


def _pyramid_pool(tape: Tape, given: Map) -> Map:
    """Half of the channels beside three max pools of them."""
    half = tape.unit(given, given.channels // 2, 1, act="silu")
    pools = [half, *(tape.max_pool(half, 1) for _ in range(3))]
    return tape.unit(tape.concat(*pools), given.channels, 1, act="silu")


def cross_stage(tape: Tape, given: Map, channels: int, repeats: int) -> Map:
    """Half of the channels through bottlenecks, half past them."""
    half = channels // 2
    through, past = tape.unit(given, half, 1, act="silu"), tape.unit(given, half, 1, act="silu")
    for _ in range(repeats):
        with tape.block(through):
            through = tape.unit(tape.unit(through, half, 1, act="silu"), half, 3, act="silu")
    return tape.unit(tape.concat(through, past), channels, 1, act="silu")


BUILDERS = {
    "resnet": resnet, "regnet": regnet, "hrnet": hrnet, "plain": plain, "inverted": inverted, "convnext": convnext,
    "densenet": densenet, "csp": csp,
}  # fmt: skip
