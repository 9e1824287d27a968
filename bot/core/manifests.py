"""What can be said of a Kubernetes object before anybody reads it. The web process imports this: no engine here."""

from __future__ import annotations

import re
from typing import Any

MAX_DEPTH = 100
_GPU = re.compile(r"(?:nvidia\.com/(?:gpu|mig)|amd\.com/gpu)")


def asks_for_gpu(text: str) -> bool:
    """Whether an object's JSON names a GPU."""
    return _GPU.search(text) is not None


def is_deep(document: Any) -> bool:
    """Nested beyond `MAX_DEPTH`: nobody's job, and more than every parser on the way takes."""
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
