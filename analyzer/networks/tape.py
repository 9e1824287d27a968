"""What autograd keeps of a forward pass, counted by tensor: a tensor that two operations need is kept once.

Numbers, not bytes: the precision decides those. Which operand an operation keeps is torch's derivative formula for it
(``tools/autograd/derivatives.yaml``); which operations autocast runs in fp32 is torch's list (docs, "CUDA Ops that can
autocast to float32").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from analyzer.networks import strides
from analyzer.networks.strides import Strides
from analyzer.networks.values import DType, Stuck, Tensor

MAX_ELEMENTS = 1 << 48
_WEIGHTS = ("once", "as it is", "counted", "input")
"""All that can be counted of a tensor: a view of a weight is in memory with it."""


@dataclass(slots=True)
class Tape:
    """Counts of one forward pass of a whole batch.

    `kept`: numbers kept where everything has one precision. `half` and `full`: under autocast, those kept in 16 and in
    32 bits. `operands`: inputs of matmuls and convolutions with a trained weight, which no implementation can do
    without. `indices`: int64 numbers. `masks`: bytes. `widest`: the largest tensor made.
    """

    kept: int = 0
    half: int = 0
    full: int = 0
    operands: int = 0
    indices: int = 0
    masks: int = 0
    widest: int = 0
    is_recording: bool = True
    is_training: bool = True
    recomputed: int = 0
    _made: list[Tensor] = field(default_factory=list)  # so that no identity is used twice

    def result(
        self, shape: Sequence[int], parts: Sequence[object], dtype: DType = "float", *, is_full: bool | None = None
    ) -> Tensor:
        """A new tensor made of `parts`. Without `is_full` it is fp32 under autocast if one of them is."""
        tensors = [part for part in parts if isinstance(part, Tensor)]
        is_grad = self.is_recording and dtype == "float" and any(part.needs_grad for part in tensors)
        full = any(part.is_full for part in tensors) if is_full is None else is_full
        made = Tensor(tuple(shape), dtype, is_grad=is_grad, is_full=full)
        if made.elements > MAX_ELEMENTS:
            raise Stuck("a tensor of an absurd size")
        self.widest = max(self.widest, made.elements)
        return made

    def view(self, tensor: Tensor, shape: Sequence[int], steps: Strides = None) -> Tensor:
        """The same numbers in another shape: kept once, whichever of the two is. `steps` are the view's strides."""
        kept = set(_WEIGHTS) if tensor.is_parameter else tensor.kept
        return Tensor(tuple(shape), tensor.dtype, is_grad=tensor.needs_grad and self.is_recording,
                      is_full=tensor.is_full, kept=kept, strides=steps, whole=tensor.whole,
                      most=tensor.most)  # fmt: skip

    def part(self, tensor: Tensor, shape: Sequence[int], steps: Sequence[int]) -> Tensor:
        """Some of the numbers, which keep all of them in memory."""
        made = self.view(tensor, shape, strides.normal(shape, steps))
        made.whole, made.most = tensor.stored, None
        return made

    def reshaped(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """The same numbers in another shape; a copy where they do not lie in that order."""
        is_view, steps = strides.viewed(tensor.shape, tensor.strides, shape)
        return self.view(tensor, shape, steps) if is_view else self.result(shape, [tensor], tensor.dtype)

    def keep(self, tensor: Tensor) -> None:
        """A backward needs the numbers of `tensor` as they are."""
        if not self.is_recording or tensor.is_parameter:
            return
        if tensor.dtype == "int":
            self.indices += tensor.stored if "as it is" not in tensor.kept else 0
            tensor.kept.add("as it is")
            return
        self._once(tensor)
        self._as_it_is(tensor)

    def widened(self, tensor: Tensor) -> None:
        """An operation that autocast runs in fp32 needs `tensor`: where it is in 16 bits, a copy of its own."""
        if tensor.is_full or not self.is_recording or tensor.is_parameter or tensor.dtype != "float":
            self.keep(tensor)
            return
        self._once(tensor)
        self.full += tensor.stored

    def operand(self, tensor: Tensor, *, has_weight: bool) -> None:
        """A matmul needs `tensor`, which autocast casts to 16 bits: where it is in 32, each matmul has a copy."""
        if not self.is_recording or tensor.is_parameter or tensor.dtype != "float":
            return
        if has_weight and "counted" not in tensor.kept:
            tensor.kept.add("counted")
            self.operands += tensor.stored
        self._once(tensor)
        if tensor.is_full:
            self.half += tensor.stored
        else:
            self._as_it_is(tensor)

    def _once(self, tensor: Tensor) -> None:
        """Where everything has one precision there are no copies: each tensor counts once."""
        if "once" not in tensor.kept:
            tensor.kept.add("once")
            self.kept += tensor.stored

    def _as_it_is(self, tensor: Tensor) -> None:
        if "as it is" in tensor.kept:
            return
        tensor.kept.add("as it is")
        if tensor.is_full:
            self.full += tensor.stored
        else:
            self.half += tensor.stored

    def mask(self, tensor: Tensor) -> None:
        """One byte per number: where dropout dropped, where a condition held."""
        if self.is_recording:
            self.masks += tensor.elements

    def positions(self, count: int) -> None:
        """int64 positions: of maxima, of tokens."""
        if self.is_recording:
            self.indices += count

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is kept: ``no_grad``."""
        before, self.is_recording = self.is_recording, False
        try:
            yield
        finally:
            self.is_recording = before

    @contextmanager
    def checkpointed(self, given: Sequence[object]) -> Iterator[None]:
        """A part that backward runs again: of it only what it was given stays."""
        before = (self.kept, self.half, self.full, self.operands, self.indices, self.masks)
        yield
        if not self.is_recording:
            return
        self.recomputed = max(self.recomputed, self.kept - before[0])
        self.kept, self.half, self.full, self.operands, self.indices, self.masks = before
        for each in given:
            if isinstance(each, Tensor) and each.dtype == "float" and "input" not in each.kept:
                each.kept.add("input")
                self.kept += each.stored
                self.operands += each.stored
                if each.is_full:
                    self.full += each.stored
                else:
                    self.half += each.stored
