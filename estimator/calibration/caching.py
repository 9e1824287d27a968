"""torch's caching allocator, as far as it decides how much is reserved.

The rules of c10/cuda/CUDACachingAllocator.cpp with default settings: sizes are rounded to 512 bytes; up to 1 MiB come
from segments of 2 MiB, less than 10 MiB from segments of 20 MiB, more from a segment of their own in steps of 2 MiB;
the smallest free block that is large enough is taken, and what remains of it is split off (in the large pool only if
it is more than 1 MiB); free neighbours of a segment are joined, and segments are not given back.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from estimator.units import MIB

_ROUND = 512
_SMALL = MIB
_SMALL_SEGMENT = 2 * MIB
_LARGE_SEGMENT = 20 * MIB
_LARGE = 10 * MIB
_STEP = 2 * MIB


class Block:
    """A part of a segment, between its neighbours."""

    __slots__ = ("after", "before", "is_free", "is_small", "number", "size")

    def __init__(self, number: int, size: int, *, is_small: bool) -> None:
        self.number, self.size, self.is_small, self.is_free = number, size, is_small, True
        self.before: Block | None = None
        self.after: Block | None = None


class Caching:
    """Bytes taken from the driver: `reserved` never falls, as long as the card is not full."""

    def __init__(self) -> None:
        self.reserved = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}  # size and number, smallest first
        self._blocks: dict[int, Block] = {}
        self._num_made = 0

    def take(self, num_bytes: int) -> Block:
        """A block for a tensor."""
        size = max(-(-num_bytes // _ROUND), 1) * _ROUND
        is_small = size <= _SMALL
        free = self._free[is_small]
        place = bisect_left(free, (size, -1))
        if place == len(free):
            self._list(self._segment(size, is_small=is_small))
            place = bisect_left(free, (size, -1))
        block = self._blocks.pop(free.pop(place)[1])
        block.is_free = False
        rest = block.size - size
        if rest >= _ROUND if is_small else rest > _SMALL:
            block.size = size
            self._list(self._split(block, rest))
        return block

    def give(self, block: Block) -> None:
        """Its tensor died: the block is free, and one with its free neighbours."""
        before, after = block.before, block.after
        if after is not None and after.is_free:
            self._unlist(after)
            _join(block, after)
        if before is not None and before.is_free:
            self._unlist(before)
            _join(before, block)
            block = before
        self._list(block)

    def _segment(self, size: int, *, is_small: bool) -> Block:
        whole = _SMALL_SEGMENT if is_small else _LARGE_SEGMENT if size < _LARGE else -(-size // _STEP) * _STEP
        self.reserved += whole
        return self._made(whole, is_small=is_small)

    def _made(self, size: int, *, is_small: bool) -> Block:
        self._num_made += 1
        return Block(self._num_made, size, is_small=is_small)

    def _split(self, block: Block, size: int) -> Block:
        rest = self._made(size, is_small=block.is_small)
        rest.before, rest.after, block.after = block, block.after, rest
        if rest.after is not None:
            rest.after.before = rest
        return rest

    def _list(self, block: Block) -> None:
        block.is_free = True
        self._blocks[block.number] = block
        insort(self._free[block.is_small], (block.size, block.number))

    def _unlist(self, block: Block) -> None:
        free = self._free[block.is_small]
        del self._blocks[block.number]
        free.pop(bisect_left(free, (block.size, block.number)))


def _join(first: Block, second: Block) -> None:
    first.size += second.size
    first.after = second.after
    if first.after is not None:
        first.after.before = first
