"""Bytes and GiB. Everything inside is bytes; GiB appears only where people read or write numbers."""

from __future__ import annotations

import math
import re
from typing import NewType

Bytes = NewType("Bytes", int)

MIB = 2**20
GIB = 2**30
MAX_MEMORY = 2**50  # 1 PiB: more is a slip of the keyboard, not a GPU
MAX_PARAMS = 10**14

_MEMORY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(b|mb|mib|m|gb|gib|g|tb|tib|t)?\s*", re.IGNORECASE)
_COUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmbt]?)\s*", re.IGNORECASE)
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_UNIT = {"b": 1, "m": MIB, "g": GIB, "t": GIB * 1024}


def to_gib(num_bytes: float, digits: int = 2) -> float:
    """Bytes as GiB, rounded for reading."""
    return round(num_bytes / GIB, digits)


def parse_memory(text: object) -> int:
    """Bytes from ``48GiB``, ``48GB``, ``24576MiB`` or a bare number of GiB.

    GPU labels say GB and mean GiB (an "80 GB" A100 has 79.15 GiB), so both are read as powers of 1024.
    Raises ValueError with a message for the person.
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        text = f"{text:f}" if math.isfinite(text) and text >= 0 else str(text)
    match = _MEMORY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("must be an amount of memory such as 48GiB or 24576MiB")
    num_bytes = int(float(match[1]) * _UNIT[(match[2] or "g")[0].lower()])
    if not MIB <= num_bytes <= MAX_MEMORY:
        raise ValueError("must be between 1 MiB and 1 PiB")
    return num_bytes


def parse_params(text: object) -> int:
    """A number of parameters from ``7B``, ``350M``, ``1.5e9`` or a whole number."""
    if isinstance(text, bool):
        raise ValueError("must be a number of parameters such as 7B")
    if isinstance(text, (int, float)):
        number = float(text)
    else:
        match = _COUNT.fullmatch(text) if isinstance(text, str) else None
        try:
            number = float(match[1]) * _SCALE[match[2].lower()] if match else float(str(text))
        except ValueError:
            raise ValueError("must be a number of parameters such as 7B or 350M") from None
    if not math.isfinite(number) or not 1 <= number <= MAX_PARAMS:
        raise ValueError("must be a number of parameters from 1 to 100T")
    return round(number)
