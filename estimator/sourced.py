"""A value that knows where it came from, and a "do not know" that knows why.

Every field of a run config is `Sourced`: an estimate without the origin of its inputs is a rumour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was read. `path` is empty for the command line or a default of ours; `text` says which words."""

    text: str
    path: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place} ({self.text})" if place and self.text else place or self.text


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that cannot be known statically. `plausible` lists values to try, cheapest first, when there are few."""

    reason: str
    plausible: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Sourced(Generic[T_co]):
    """A value (or `Unknown`), its origin, and what it overrides, strongest first."""

    value: T_co | Unknown
    origin: Origin
    overrides: tuple[Sourced[T_co], ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether there is a value."""
        return not isinstance(self.value, Unknown)

    def describe(self) -> str:
        """``launch.sh:7 (--batch-size 8), overrides train.py:12 (default 4)``."""
        parts = [str(self.origin)]
        parts += [f"overrides {other.origin}" for other in self.overrides]
        return ", ".join(parts)
