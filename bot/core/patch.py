"""Changes to files as a patch that ``git apply`` takes, byte for byte."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')
_LETTERS = {0x07: "a", 0x08: "b", 0x09: "t", 0x0A: "n", 0x0B: "v", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}


def file_patch(path: str, old: str, new: str) -> str:
    """The patch of one file that exists before and after; empty where nothing changes."""
    lines = list(_lines(difflib.unified_diff(_cut(old), _cut(new), _name("a/", path), _name("b/", path))))
    return "".join([f"diff --git {_name('a/', path)} {_name('b/', path)}\n", *lines]) if lines else ""


def _lines(diff: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(diff):
        if number < 2 and " " in line[4:].rstrip("\n") and not line.endswith('"\n'):
            yield line.rstrip("\n") + "\t\n"  # git ends a name with blanks at a tab
        else:
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _cut(text: str) -> list[str]:
    """Lines end at newlines only: a carriage return is part of its line, a form feed ends none."""
    return [f"{line}\n" for line in text.split("\n")[:-1]] + ([last] if (last := text.rpartition("\n")[2]) else [])


def _name(side: str, path: str) -> str:
    """As git quotes names with its default ``core.quotePath``."""
    raw = (side + path).encode("utf-8", "surrogateescape")
    if all(byte in _PLAIN for byte in raw):
        return side + path
    shown = (chr(byte) if byte in _PLAIN else f"\\{_LETTERS.get(byte, f'{byte:03o}')}" for byte in raw)
    return f'"{"".join(shown)}"'
