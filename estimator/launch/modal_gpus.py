"""Modal's names for GPUs: ``"A100-80GB:2"``, ``"h100!"``, a list of alternatives; `A100` alone is the 40 GB card."""

from __future__ import annotations

import re

from estimator.launch.base import not_known
from estimator.sourced import Origin, Sourced, Unknown

_SIZES = {"a100": "A100-40GB", "a10": "A10G", "h100": "H100-80GB"}


def asked(text: str) -> tuple[str, int] | None:
    """The GPU and how many; None for what is no such name (``any``)."""
    match = re.fullmatch(r"\s*([A-Za-z][\w\-.]*)[!+]?\s*(?::\s*(\d{1,2}))?\s*", text)
    if match is None or match[1].lower() == "any":
        return None
    return _SIZES.get(match[1].lower(), match[1].upper()), int(match[2] or 1)


def target_of(texts: tuple[str, ...], origin: Origin) -> tuple[Sourced[tuple[str, ...]], Sourced[int]]:
    """GPU and count of one name, or of alternatives."""
    found = [item for text in texts if (item := asked(text)) is not None]
    if not found or len(found) != len(texts):
        unknown = f"gpu {', '.join(texts)[:60]!r} names no GPU"
        return not_known(unknown, origin), not_known(unknown, origin)
    counts = tuple(dict.fromkeys(count for _, count in found))
    gpu = Sourced(tuple(dict.fromkeys(name for name, _ in found)), origin)
    if len(counts) == 1:
        return gpu, Sourced(counts[0], origin)
    return gpu, Sourced(Unknown("the alternatives have different numbers of GPUs", counts), origin)
