"""A directory on this machine as the tree under analysis."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from functools import cached_property
from pathlib import Path

_SKIPPED = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv", "venv", ".tox", ".mypy_cache"})
_MAX_BYTES = 8 * 2**20  # the analyzer refuses larger sources anyway; nothing else we read comes near


class Directory:
    """`analyzer.api.Files` over a folder. Links are not followed: nothing outside the folder exists."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def _paths(self) -> frozenset[str]:
        found = []
        for folder, folders, names in os.walk(self._root):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED)
            found += [Path(folder, name) for name in names]
        return frozenset(item.relative_to(self._root).as_posix() for item in found if _is_plain(item))

    def paths(self) -> Collection[str]:
        """Every regular file, without version control and caches."""
        return self._paths

    def read(self, path: str) -> bytes | None:
        """The bytes of one file; None where there is none, or where it is outside, a link or too large."""
        place = self._root / path
        if path not in self._paths or not place.is_file():
            return None
        try:
            return place.read_bytes() if place.stat().st_size <= _MAX_BYTES else None
        except OSError:
            return None


def _is_plain(place: Path) -> bool:
    """No link, and nothing that a read would wait for (a pipe)."""
    try:
        return stat.S_ISREG(place.lstat().st_mode)
    except OSError:
        return False
