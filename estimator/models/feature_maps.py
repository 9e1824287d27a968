"""What autograd keeps of a convolutional network, counted operation by operation for one image.

A `Tape` walks a network as shapes: every operation returns the `Map` it makes, counts its parameters, and marks the
maps that its backward needs. A map that two operations need is kept once; an operation in place returns the map it was
given. Nothing here is fitted: which operand an operation saves is torch's derivative formula for it
(`tools/autograd/derivatives.yaml`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Map:
    """A feature map of one image: channels x height x width. `is_kept`: some backward already needs it. `is_wide`: it
    is fp32 under autocast."""

    channels: int
    height: int
    width: int
    is_kept: bool = False
    is_operand: bool = False
    is_wide: bool = False

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return self.channels * self.height * self.width


@dataclass(slots=True)
class Tape:
    """Counts of one forward pass of one image. Elements, not bytes: the precision decides those.

    `kept` are all maps that a backward needs, `operands` those that a convolution or matmul with a trained weight needs
    (no implementation can do without them), `widest` the largest map. `wide` of the kept are fp32 under autocast, which
    computes layer and group norms so (torch docs, "CUDA Ops that can autocast to float32").
    """

    params: int = 0
    trained: int = 0
    kept: int = 0
    operands: int = 0
    wide: int = 0
    indices: int = 0  # int64 numbers (the positions of a max pool)
    widest: int = 0
    shared: int = 0  # of maps that several heads read: their gradients wait for each other
    candidates: int = 0  # boxes that are compared with every object of an image
    outputs: list[Map] = field(default_factory=list)
    blocks: int = 0
    block_inputs: int = 0
    widest_block: int = 0
    is_recording: bool = True

    @contextmanager
    def frozen(self, is_frozen: bool = True) -> Iterator[None]:
        """Parameters that are not trained, with nothing before them that is: no graph."""
        before, self.is_recording = self.is_recording, self.is_recording and not is_frozen
        yield
        self.is_recording = before

    @contextmanager
    def block(self, given: Map) -> Iterator[None]:
        """A unit that checkpointing would recompute: of it only `given` stays."""
        before = self.kept
        yield
        if self.is_recording:
            self.blocks += 1
            self.block_inputs += given.elements
            self.widest_block = max(self.widest_block, self.kept - before)

    def weigh(self, params: int) -> None:
        """Count parameters."""
        self.params += params
        self.trained += params if self.is_recording else 0

    def keep(self, given: Map) -> Map:
        """A backward needs `given`."""
        if self.is_recording and not given.is_kept:
            given.is_kept = True
            self.kept += given.elements
            self.wide += given.elements if given.is_wide else 0
        return given

    def made(self, channels: int, height: int, width: int) -> Map:
        """A new map."""
        result = Map(channels, height, width)
        self.widest = max(self.widest, result.elements)
        return result

    def like(self, given: Map, channels: int | None = None) -> Map:
        """A new map of the same size."""
        return self.made(channels or given.channels, given.height, given.width)

    def conv(
        self, given: Map, channels: int, kernel: int = 3, stride: int = 1, groups: int = 1, *, has_bias: bool = False
    ) -> Map:
        """A convolution with padding: keeps its input."""
        self.weigh(given.channels * channels * kernel * kernel // groups + (channels if has_bias else 0))
        self.operand(given)
        return self.made(channels, -(-given.height // stride), -(-given.width // stride))

    def operand(self, given: Map) -> None:
        """`given` meets a trained weight. Of an fp32 map each reader makes a 16-bit copy of its own under autocast,
        which caches those of weights alone, and keeps that."""
        if self.is_recording and given.is_wide:
            if given.is_kept:
                self.wide += given.elements
            else:
                given.is_kept = True
                self.kept += given.elements
        self.keep(given)
        if self.is_recording and not given.is_operand:
            given.is_operand = True
            self.operands += given.elements

    def norm(self, given: Map, kind: str = "batch") -> Map:
        """``batch``, ``group`` and ``layer`` keep their input. ``affine`` (frozen statistics and weights, written as a
        product with a constant) keeps nothing; ``affine-wide`` makes fp32 of it under autocast, for its constants are
        (torchvision's FrozenBatchNorm2d; detectron2's casts them)."""
        if kind == "none":
            return given
        self.weigh(2 * given.channels if not kind.startswith("affine") else 0)
        if not kind.startswith("affine"):
            if self.is_recording and not given.is_kept and kind in ("layer", "group"):
                self.wide += given.elements
            self.keep(given)
        made = self.like(given)
        made.is_wide = kind == "affine-wide"
        return made

    def activation(self, given: Map, kind: str = "relu") -> Map:
        """ReLU in place keeps its result, which is its argument's storage; SiLU, GELU and the like their input."""
        if kind == "none":
            return given
        if kind == "relu":
            return self.keep(given)
        self.keep(given)
        return self.like(given)

    def unit(
        self, given: Map, channels: int, kernel: int = 3, stride: int = 1, groups: int = 1, *,
        norm: str = "batch", act: str = "relu",
    ) -> Map:  # fmt: skip
        """Convolution, norm, activation."""
        made = self.conv(given, channels, kernel, stride, groups, has_bias=norm == "none")
        return self.activation(self.norm(made, norm), act)

    def max_pool(self, given: Map, stride: int = 2) -> Map:
        """Keeps its input and the positions of the maxima."""
        self.keep(given)
        result = self.made(given.channels, -(-given.height // stride), -(-given.width // stride))
        self.indices += result.elements if self.is_recording else 0
        return result

    def resized(self, given: Map, like: Map) -> Map:
        """Interpolation keeps nothing."""
        return self.made(given.channels, like.height, like.width)

    def concat(self, *given: Map) -> Map:
        """A copy of all; the parts are not needed."""
        return self.like(given[0], sum(each.channels for each in given))

    def linear(self, rows: int, given: int, out: int, *, act: str = "none") -> int:
        """A fully connected layer over `rows` vectors: keeps them. Returns the width it makes."""
        self.weigh(given * out + out)
        if self.is_recording:
            self.kept += rows * given
            self.operands += rows * given
        self.activation(self.made(out, rows, 1), act)
        return out
