"""The Python files of a folder on disk, as `analyzer.api.Files`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

EXCLUDED = frozenset({"node_modules", "__pycache__", "venv", "env", "site-packages", "build", "dist"})
_ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")


class DiskFiles:
    """Files by their POSIX path relative to `base`; only those listed exist."""

    def __init__(self, base: str, listed: Collection[str]) -> None:
        self.base = base
        self._listed = frozenset(listed)

    def paths(self) -> Collection[str]:
        """Every listed path."""
        return self._listed

    def read(self, path: str) -> bytes | None:
        """The bytes, or None where the file is not listed or cannot be read."""
        if path not in self._listed:
            return None
        try:
            return Path(self.base, path).read_bytes()
        except OSError:
            return None


def walk(folder: str) -> Iterator[str]:
    """The Python files below a folder, in order. Links are not followed; hidden folders, virtual environments and
    installed packages are left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_excluded(os.path.join(place, name), name))
        for name in sorted(names):
            path = os.path.join(place, name)
            if name.endswith(".py") and not name.startswith(".") and os.path.isfile(path) and not os.path.islink(path):
                yield path


def _is_excluded(path: str, name: str) -> bool:
    return name.startswith(".") or name in EXCLUDED or os.path.exists(os.path.join(path, "pyvenv.cfg"))


def project_root(path: str) -> str:
    """The nearest folder above a file that looks like the root of a project, else the file's own."""
    start = os.path.dirname(os.path.abspath(path))
    folder = start
    while True:
        if any(os.path.exists(os.path.join(folder, mark)) for mark in _ROOT_MARKS):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return start
        folder = above
