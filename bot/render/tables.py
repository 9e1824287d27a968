"""Plain-text tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(header: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Columns padded to their widest cell; numbers to the right."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    is_number = [all(isinstance(row[column], (int, float)) for row in rows) for column in range(len(cells[0]))]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)
