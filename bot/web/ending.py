"""One bit that a receiver's processes share: it is about to end. Set by the first of them, read by `/readyz`."""

from __future__ import annotations

import mmap


class Ending:
    """Made before the fork; what one process announces, all see."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 1)

    def announce(self) -> None:
        """From now on nothing new should be sent here."""
        self._shared[0] = 1

    @property
    def is_near(self) -> bool:
        """Whether it was announced."""
        return self._shared[0] == 1
