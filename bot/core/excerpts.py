"""The lines of code that a finding needs to be understood, and no others: bounded, by file, with what each line is."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from analyzer.api import applied, cell_lines, text_of
from analyzer.findings import Cell, Finding

Read = Callable[[str], "bytes | None"]
CONTEXT = 2
MAX_SPAN = 12
MAX_LINES = 60
MAX_WIDTH = 220
MAX_FIX_LINES = 40
_MAX_COMPARED = 400  # lines between the first and the last that a fix changes


class Texts:
    """The files of a tree as lines, each read once; of a notebook the lines of one cell."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._known: dict[tuple[str, int | None], list[str]] = {}

    def lines(self, path: str, cell: Cell | None = None) -> list[str]:
        """Without their ends. Empty where there is nothing to read."""
        key = (path, cell.number if cell else None)
        if key not in self._known:
            self._known[key] = self._load(path, cell)
        return self._known[key]

    def text(self, path: str) -> str:
        """The whole file, as far as it is text."""
        return "\n".join(self.lines(path))

    def _load(self, path: str, cell: Cell | None) -> list[str]:
        raw = self._read(path)
        if raw is None:
            return []
        if cell is not None:
            return list(cell_lines(raw).get(cell.number, ()))
        text = text_of(raw)
        return (raw.decode("utf-8", "replace") if text is None else text).split("\n")


def excerpt(finding: Finding, texts: Texts) -> list[dict[str, Any]]:
    """Segments ``{path, cell, lines: [{number, text, is_finding, steps}]}``; `steps` are numbers of the evidence.

    The file of the finding comes first, the others as the evidence names them.
    """
    budget = MAX_LINES
    segments: list[dict[str, Any]] = []
    for (path, number), marks in _marked(finding).items():
        cell = next((one for one in _cells(finding) if one.number == number), None)
        lines = texts.lines(path, cell)
        for run in _runs(marks, len(lines)):
            shown = run[:budget]
            budget -= len(shown)
            if shown:
                rows = [_row(line, lines[line - 1], marks) for line in shown]
                segments.append({"path": path, "cell": number, "lines": rows})
    return segments


def _cells(finding: Finding) -> Iterable[Cell]:
    return [one for one in (finding.cell, *(step.cell for step in finding.evidence)) if one]


Marks = dict[int, "list[int]"]


def _marked(finding: Finding) -> Mapping[tuple[str, int | None], Marks]:
    """Per place the lines that matter: 0 for the finding's own, n for step n of the evidence."""
    cell = finding.cell
    first, last = (cell.start.line, cell.end.line) if cell else (finding.span.start.line, finding.span.end.line)
    own: Marks = {line: [0] for line in range(first, min(last, first + MAX_SPAN) + 1)}
    places: dict[tuple[str, int | None], Marks] = {(finding.path, cell.number if cell else None): own}
    for number, step in enumerate(finding.evidence, 1):
        place = (step.path, step.cell.number if step.cell else None)
        line = step.cell.start.line if step.cell else step.line
        places.setdefault(place, {}).setdefault(line, []).append(number)
    return places


def _runs(marks: Marks, num_lines: int) -> list[list[int]]:
    wanted = sorted({near for line in marks for near in range(line - CONTEXT, line + CONTEXT + 1)})
    runs: list[list[int]] = []
    for line in wanted:
        if not 1 <= line <= num_lines:
            continue
        if runs and line - runs[-1][-1] <= 2:  # one hidden line is not worth a gap
            runs[-1] += range(runs[-1][-1] + 1, line + 1)
        else:
            runs.append([line])
    return runs


def _row(number: int, text: str, marks: Marks) -> dict[str, Any]:
    here = marks.get(number, [])
    return {
        "number": number,
        "text": cut(text.rstrip("\r")),
        "is_finding": 0 in here,
        "steps": [step for step in here if step],
    }


def cut(line: str) -> str:
    """One line, no longer than a person reads."""
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…"


def change(finding: Finding, read: Read) -> list[dict[str, Any]]:
    """What the fix does to the finding's file, as rows ``{sign, number, text}``; empty where it cannot be shown."""
    fix = finding.fix
    raw = read(finding.path) if fix else None
    if fix is None or raw is None or finding.cell or any(edit.span.path != finding.path for edit in fix.edits):
        return []
    try:
        old, new = text_of(raw), text_of(applied(raw, fix.edits))
    except ValueError:
        return []
    if old is None or new is None:
        return []
    return _rows(old.split("\n"), new.split("\n"))[:MAX_FIX_LINES]


def _rows(old: Sequence[str], new: Sequence[str]) -> list[dict[str, Any]]:
    top = _common(old, new)
    bottom = _common(old[top:][::-1], new[top:][::-1])
    old, new = old[top : len(old) - bottom], new[top : len(new) - bottom]
    if len(old) + len(new) > _MAX_COMPARED:
        return []
    rows: list[dict[str, Any]] = []
    for kind, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            rows += [_line("-", top + n, old[n]) for n in range(start, end)]
            rows += [_line("+", top + n, new[n]) for n in range(new_start, new_end)]
    return rows


def _line(sign: str, index: int, text: str) -> dict[str, Any]:
    return {"sign": sign, "number": index + 1, "text": cut(text.rstrip("\r"))}


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))
