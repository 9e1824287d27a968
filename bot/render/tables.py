"""Plain-text tables for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_LEAST = 20


def aligned(header: Sequence[object], rows: Sequence[Sequence[object]], width: int | None = None) -> str:
    """Columns padded to their widest cell; numbers to the right. Text in the last one goes on below, where it is wider
    than `width` allows."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    is_number = [all(isinstance(row[column], (int, float)) for row in rows) for column in range(len(cells[0]))]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        start = "".join(f"{cell}  " for cell in padded[:-1])
        room = max(_LEAST, width - len(start)) if width and not is_number[-1] else 0
        parts = textwrap.wrap(row[-1], room, break_on_hyphens=False, break_long_words=False) if room else []
        first, *rest = parts or [padded[-1]]
        lines += [f"{start}{first}".rstrip(), *(" " * len(start) + part for part in rest)]
    return "\n".join(lines)
