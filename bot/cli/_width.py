"""How wide what a person reads may be: no wider than the terminal, and as ever where nobody looks (a pipe, a file)."""

from __future__ import annotations

import shutil
import sys
import textwrap

_LEAST = 60


def columns(most: int) -> int:
    """The width of the terminal, from 60 to `most`; `most` where standard output is none."""
    if not sys.stdout.isatty():
        return most
    return max(_LEAST, min(most, shutil.get_terminal_size((most, 24)).columns))


def paragraphs(text: str, width: int) -> str:
    """Prose, whose paragraphs are parted by empty lines, as wide as that."""
    parts = (" ".join(part.split()) for part in text.strip().split("\n\n"))
    return "\n\n".join(textwrap.fill(part, width, break_on_hyphens=False, break_long_words=False) for part in parts)
