"""Trees for these tests: a mapping from path to text."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

DATA = Path(__file__).with_name("data")


class Tree:
    """Files in memory."""

    def __init__(self, files: dict[str, str | bytes]) -> None:
        self._files = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}

    @classmethod
    def of(cls, name: str) -> Tree:
        """A folder under ``data``. Python files end in ``.py.txt`` there: they are no code of ours to lint."""
        root = DATA / name
        found = [path for path in root.rglob("*") if path.is_file()]
        return cls({re.sub(r"\.py\.txt$", ".py", p.relative_to(root).as_posix()): p.read_bytes() for p in found})

    def with_edit(self, path: str, old: str, new: str) -> Tree:
        """A copy with one text replaced, exactly once."""
        text = self._files[path].decode()
        assert text.count(old) == 1
        return Tree({**self._files, path: text.replace(old, new)})

    def paths(self) -> Collection[str]:
        return list(self._files)

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)
