"""Which version of a library a tree asks for: defaults differ between them."""

from __future__ import annotations

import re

from analyzer.api import Files
from estimator.sourced import Origin, Sourced, Unknown

_NAMES = re.compile(
    r"(^|/)(requirements[\w.-]*\.txt|pyproject\.toml|setup\.(py|cfg)|environment\.ya?ml|constraints\.txt|uv\.lock)$"
)
_MAX_FILES = 8
_MAX_BYTES = 512 * 1024


def may_pin(path: str) -> bool:
    """Whether a file may say which version of a library is installed."""
    return bool(_NAMES.search(path))


def major_version(files: Files, library: str) -> Sourced[int]:
    """The major version that every requirement of the tree agrees on; unknown where unpinned."""
    pattern = re.compile(
        rf"(?<![\w.-]){re.escape(library)}(?:\[[^\]]*\])?[\s\"']*((?:[=<>~!]=?=?\s*[\d.*a-z]+[,\s]*)+)"
    )
    candidates = sorted((path for path in files.paths() if _NAMES.search(path)), key=lambda p: (p.count("/"), p))
    for path in candidates[:_MAX_FILES]:
        text = (files.read(path) or b"")[:_MAX_BYTES].decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), start=1):
            match = pattern.search(line.split("#")[0])
            major = _major(match[1]) if match else None
            if match and major is not None:
                return Sourced(major, Origin(f"{library}{match[1].strip(', ')}", path, number))
    return Sourced(Unknown(f"the version of {library} is not pinned"), Origin(f"no pin of {library}"))


def _major(specifier: str) -> int | None:
    """``==4.46.0``, ``~=4.40`` and ``>=4.40,<5`` decide; ``>=4.40`` alone does not."""
    exact = re.search(r"(?:==|~=)\s*(\d+)", specifier)
    if exact:
        return int(exact[1])
    low, high = re.search(r">=?\s*(\d+)", specifier), re.search(r"<(=?)\s*(\d+)((?:\.\d+)*)", specifier)
    if low and high:
        is_below_next = not high[1] and not re.search(r"[1-9]", high[3])
        top = int(high[2]) - 1 if is_below_next else int(high[2])
        return int(low[1]) if int(low[1]) == top else None
    return None
