"""Diffusion networks by id: what a position of their latent image or video costs, traced in the real classes.

``data/pixels.csv`` holds the counts and `estimator.calibration.diffusion` is what traced them. Bytes are per latent
position and 16-bit element; a network's blocks are alike, so a count holds for every size of image. Where the prompt's
words pass through the same blocks (`words`), they are positions too, and a count is spread over both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from estimator.tables import number, rows

_LAYER = ("network", "kind", "module", "inputs", "outputs", "count", "source")
_PROJECTIONS = (
    "to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out",
    "to_qkv_mlp_proj", "attn.to_out",
)  # fmt: skip
"""What the LoRA scripts of diffusers name: the four of a UNet, both streams of SD3 and FLUX, the fused of FLUX.2."""
_REQUIRED = (
    "pattern", "name", "params", "layers", "hidden", "side", "stride", "kept", "block", "kept_frozen_mixed", "source",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Regime:
    """Bytes per position: what all blocks keep for backward, and the block that keeps most."""

    kept: float
    block: float


@dataclass(frozen=True, slots=True)
class Layer:
    """Linear layers or convolutions of one name (``*`` are the numbers that tell them apart) and width. `inputs` of a
    convolution are channels times its kernel: adapters beside it have its kernel first (peft)."""

    kind: str
    module: str
    inputs: int
    outputs: int
    count: int

    def named(self, target: str) -> int:
        """How many of them peft's ``target_modules`` name by the end of their path, part by part."""
        asked, path = target.split("."), self.module.split(".")
        ends = zip(reversed(asked), reversed(path), strict=False)
        if len(asked) > len(path) or any(
            one != other and not (other == "*" and one.isdecimal()) for one, other in ends
        ):
            return 0
        return 1 if "*" in path[-len(asked) :] and "*" not in path[: -len(asked)] else self.count


@dataclass(frozen=True, slots=True)
class PixelNet:
    """One network. `side` pixels make a position in width and in height, `stride` frames in time (0: images alone).
    `held` is what checkpointing keeps, in bytes per position; `text` and `coder` are the parameters around it."""

    name: str
    params: int
    layers: int
    hidden: int
    side: int
    stride: int
    trained: Regime  # everything in 16 bits
    frozen: Regime  # adapters beside frozen weights
    frozen_mixed: Regime  # fp32 adapters beside frozen 16-bit weights, under autocast, which widens norms
    mixed: Regime  # fp32 weights under autocast
    wide: float  # kept where everything is fp32: masks and what is fp32 in any case do not double
    held: float
    words: int  # of the prompt, where they pass through the blocks beside the picture
    scores: float  # elements of all attention maps over the square of the positions, where they are materialised
    text: int
    coder: int
    source: str

    def adapted(self, targets: str) -> tuple[Layer, ...]:
        """Layers that get adapters: ``attention`` for the projections that diffusers' scripts name, ``all-linear``, or
        names of modules with commas between them. Of another implementation's names it has none."""
        return _adapted(self.name.partition("/")[0], targets)

    def positions(self, height: int, width: int, frames: int) -> int:
        """Latent positions of a video, or of an image (one frame), and those of the prompt beside them."""
        in_time = (frames - 1) // self.stride + 1 if self.stride else 1
        return max(height // self.side, 1) * max(width // self.side, 1) * in_time + self.words


def find(name: str) -> PixelNet | None:
    """The network that an id names: the first pattern that matches."""
    text = name.strip().lower()
    return next((net for pattern, net in _nets() if re.search(pattern, text)), None)


@lru_cache(maxsize=256)
def _adapted(network: str, targets: str) -> tuple[Layer, ...]:
    layers = _layers().get(network, ())
    if targets == "all-linear":
        return tuple(each for each in layers if each.kind == "linear")
    names = _PROJECTIONS if targets == "attention" else targets.split(",")
    found = ((each, sum(each.named(name) for name in dict.fromkeys(names))) for each in layers)
    return tuple(replace(each, count=min(named, each.count)) for each, named in found if named)


def module_names() -> frozenset[str]:
    """Parts of the layers' names, of all networks."""
    return frozenset(part for layers in _layers().values() for each in layers for part in each.module.split("."))


@lru_cache(maxsize=1)
def _layers() -> dict[str, tuple[Layer, ...]]:
    found: dict[str, list[Layer]] = {}
    for row in rows("layers", _LAYER):
        sizes = (int(number(row, name) or 0) for name in ("inputs", "outputs", "count"))
        found.setdefault(row["network"], []).append(Layer(row["kind"], row["module"], *sizes))
    return {name: tuple(layers) for name, layers in found.items()}


@lru_cache(maxsize=1)
def _nets() -> tuple[tuple[str, PixelNet], ...]:
    return tuple((row["pattern"], _net(row)) for row in rows("pixels", _REQUIRED))


def _net(row: dict[str, str]) -> PixelNet:
    def whole(name: str) -> int:
        return int(number(row, name) or 0)

    traced = whole("traced")
    share = (
        traced / (traced + whole("words")) if traced else 1.0
    )  # counts are per position of the picture that was traced

    def regime(suffix: str, otherwise: str = "") -> Regime:
        suffix = suffix if row[f"kept{suffix}"] else otherwise
        return Regime((number(row, f"kept{suffix}") or 0.0) * share, (number(row, f"block{suffix}") or 0.0) * share)

    return PixelNet(
        name=row["name"], params=whole("params"), layers=whole("layers"), hidden=whole("hidden"), side=whole("side"),
        stride=whole("stride"), trained=regime(""), frozen=regime("_frozen"),
        frozen_mixed=regime("_frozen_mixed", "_frozen"), mixed=regime("_mixed"),
        wide=(number(row, "kept_fp32") or 2 * (number(row, "kept") or 0.0)) * share,
        held=number(row, "held") or 0.0, words=whole("words"), scores=number(row, "scores") or 0.0,
        text=whole("text_params"),
        coder=whole("coder_params"), source=row["source"],
    )  # fmt: skip
