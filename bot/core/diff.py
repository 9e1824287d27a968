"""Unified diffs as GitHub sends them: which lines can carry a comment, and in which hunk they are.

Lines end at ``\\n`` only: ``\\r``, U+2028 and form feeds are content. ``\\ No newline at end of file`` is no line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

Side = Literal["LEFT", "RIGHT"]
Commentable = Mapping[tuple[Side, int], int]
_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def commentable(patch: str | None) -> dict[tuple[Side, int], int]:
    """The lines of `patch` that GitHub accepts a comment on, each with the number of its hunk.

    RIGHT are added and context lines (numbers of the new file), LEFT deleted and context lines (of the old one).
    """
    lines: dict[tuple[Side, int], int] = {}
    left = right = left_rest = right_rest = 0
    hunk = -1
    for text in (patch or "").split("\n"):
        header = _HEADER.match(text)
        if header and not (left_rest or right_rest):
            left, right = int(header[1]), int(header[3])
            left_rest, right_rest = _count(header[2]), _count(header[4])
            hunk += 1
        elif (left_rest or right_rest) and not text.startswith("\\"):
            if not text.startswith("+"):
                lines["LEFT", left] = hunk
                left, left_rest = left + 1, max(0, left_rest - 1)
            if not text.startswith("-"):
                lines["RIGHT", right] = hunk
                right, right_rest = right + 1, max(0, right_rest - 1)
    return lines


def _count(group: str | None) -> int:
    return 1 if group is None else int(group)


def hunk_of(lines: Commentable, start: int, end: int) -> int | None:
    """The one hunk that holds every RIGHT line ``start..end``; None when there is none."""
    first = lines.get(("RIGHT", start))
    if first is None or end < start or end - start > len(lines):
        return None
    same = all(lines.get(("RIGHT", line)) == first for line in range(start, end + 1))
    return first if same else None


def added_lines(patch: str | None) -> frozenset[int]:
    """The numbers, in the new file, of the lines that `patch` adds."""
    both = commentable(patch)
    added: set[int] = set()
    right = 0
    for text in (patch or "").split("\n"):
        header = _HEADER.match(text)
        if header:
            right = int(header[3])
        elif text.startswith("+") and ("RIGHT", right) in both:
            added.add(right)
            right += 1
        elif not text.startswith(("-", "\\")):
            right += 1
    return frozenset(added)
