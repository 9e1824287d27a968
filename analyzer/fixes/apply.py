"""Edits put into the bytes of a file: nothing else changes, neither line ends nor encoding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from analyzer.findings import Edit, Finding, Fix, Position
from analyzer.nesting import decode, encoding_of

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_BOM = b"\xef\xbb\xbf"


def apply(source: bytes, edits: Iterable[Edit]) -> bytes:
    """`source` with `edits` made. New line ends follow the file's own.

    Raises ValueError where edits overlap, lie outside the file or hold what its encoding cannot say.
    """
    text = decode(source)
    starts = [match.start() for match in _LINE.finditer(text)]
    newline = next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")
    pieces: list[str] = []
    done = 0
    for edit in sorted(set(edits), key=lambda edit: (edit.span.start, edit.span.end)):
        start, end = _offset(starts, text, edit.span.start), _offset(starts, text, edit.span.end)
        if start < done or end < start:
            raise ValueError(f"edits overlap at {edit.span.start.line}:{edit.span.start.column}")
        pieces += [text[done:start], edit.text.replace("\n", newline)]
        done = end
    changed = "".join([*pieces, text[done:]])
    name = encoding_of(source)
    mark = _BOM if name == "utf-8-sig" else b""
    return mark + changed.encode("utf-8" if mark else name)


def _offset(starts: Sequence[int], text: str, place: Position) -> int:
    if not 1 <= place.line <= len(starts):
        raise ValueError(f"line {place.line} is outside the file")
    offset = starts[place.line - 1] + place.column
    if offset > len(text):
        raise ValueError(f"{place.line}:{place.column} is outside the file")
    return offset


class Taken:
    """Edits that were chosen, by the lines they touch: of hundreds only neighbours are compared."""

    def __init__(self) -> None:
        self._edits: dict[tuple[str, int], list[Edit]] = {}

    def overlaps(self, fix: Fix) -> bool:
        """Whether a fix touches the same characters as one of them, so that only one can be applied."""
        return any(_touch(mine, edit) for edit in fix.edits for mine in self._near(edit))

    def clashes(self, fix: Fix) -> bool:
        """Whether a fix cannot be tried together with them. One line that both add is no obstacle: it is added once."""
        return any(mine != edit and _touch(mine, edit) for edit in fix.edits for mine in self._near(edit))

    def add(self, fix: Fix) -> None:
        """Choose a fix."""
        for edit in fix.edits:
            for place in _lines(edit):
                self._edits.setdefault(place, []).append(edit)

    def _near(self, edit: Edit) -> Iterator[Edit]:
        return (mine for place in _lines(edit) for mine in self._edits.get(place, ()))


def _lines(edit: Edit) -> Iterator[tuple[str, int]]:
    span = edit.span
    return ((span.path, line) for line in range(span.start.line, span.end.line + 1))


def _touch(a: Edit, b: Edit) -> bool:
    return a.span.path == b.span.path and a.span.start <= b.span.end and b.span.start <= a.span.end


def choose(findings: Iterable[Finding], with_unsafe: bool = False) -> list[Fix]:
    """The fixes to apply together: safe ones (unless told otherwise) that do not overlap; the first one wins."""
    chosen: list[Fix] = []
    taken = Taken()
    for finding in findings:
        fix = finding.fix
        if fix is None or (fix.applicability != "safe" and not with_unsafe):
            continue
        if not taken.overlaps(fix):
            chosen.append(fix)
            taken.add(fix)
    return chosen
