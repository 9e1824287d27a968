"""The cells of a notebook as one program, and its positions and edits carried back into the file."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from dataclasses import dataclass, field

from analyzer.errors import InputError
from analyzer.findings import Cell, Edit, Position, Span
from analyzer.fixes.apply import apply
from analyzer.nesting import MAX_FILE_BYTES, too_deep
from analyzer.notebooks.cells import CodeCell, code_cells, left_out
from analyzer.notebooks.magics import Line, as_python, lines_of
from analyzer.programs import POINTER, is_pointer

MAX_BYTES = 32 * 2**20
"""Outputs are part of the file: a notebook is much longer than its program."""
_COOKIE = re.compile(r"(?m)^(?P<before>[ \t\f]*#.*?cod)ing(?=[:=])")
_STRAY = {ast.Return: "return", ast.Yield: "yield", ast.YieldFrom: "yield"}
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the program: the cell it comes from, its line there (from 1), and where that line starts."""

    cell: CodeCell
    number: int
    start: int
    line: Line


@dataclass(slots=True)
class Notebook:
    """One notebook. `source` is its program in UTF-8; `notes` say which cells are not part of it, and why."""

    raw: str
    source: bytes
    notes: tuple[str, ...]
    rows: list[_Row] = field(default_factory=list)
    line_starts: list[int] = field(default_factory=list)

    def cell(self, span: Span) -> Cell:
        """Where a person finds a span of the program. A span ends in the cell it starts in."""
        number, start = self._in_cell(span.start)
        last, end = self._in_cell(span.end)
        return Cell(number, start, end if last == number else start)

    def _in_cell(self, at: Position) -> tuple[int, Position]:
        row = self.rows[min(at.line, len(self.rows)) - 1]
        return row.cell.number, Position(row.number, row.line.column(at.column))

    def span(self, span: Span) -> Span:
        """The same span in the raw text."""
        return Span(span.path, self._place(span.start), self._place(span.end))

    def _place(self, at: Position) -> Position:
        offset = self._offset(at)
        if not self.line_starts:
            self.line_starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", self.raw))]
        line = bisect_right(self.line_starts, offset)
        return Position(line, offset - self.line_starts[line - 1])

    def _offset(self, at: Position) -> int:
        row = self.rows[min(at.line, len(self.rows)) - 1]
        return row.cell.raw_offset(self.raw, row.start + row.line.column(at.column))

    def edits(self, edits: tuple[Edit, ...], raw: bytes) -> tuple[Edit, ...] | None:
        """The edits of the file that make these of its program; None where they touch what is not Python there, or
        where the changed file would hold another program than the changed one."""
        touched = {line for edit in edits for line in range(edit.span.start.line, edit.span.end.line + 1)}
        if any(line > len(self.rows) or self.rows[line - 1].line.is_made for line in touched):
            return None
        if any("\n" in edit.text and self.rows[edit.span.start.line - 1].line.shift < 0 for edit in edits):
            return None  # a new line would stand among tabs with spaces
        moved = tuple(Edit(self.span(edit.span), self._escaped(edit)) for edit in edits)
        try:
            wanted = apply(self.source, edits)
            return moved if read(apply(raw, moved)).source == wanted else None
        except (ValueError, InputError):
            return None

    def _escaped(self, edit: Edit) -> str:
        """The edit's text inside a JSON string; in a source written as a list each line becomes a string of its own."""
        row = self.rows[edit.span.start.line - 1]
        text = edit.text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
        if not row.cell.is_list:
            return text.replace("\n", "\\n")
        place = self._place(Position(edit.span.start.line, 0))
        start = self.line_starts[place.line - 1]
        indent = self.raw[start : start + place.column].partition('"')[0]
        return text.replace("\n", f'\\n",\n{indent}"' if not indent.strip() else "\\n")


def read(raw: bytes) -> Notebook:
    """A notebook's program. Raises `InputError` with words for a person where there is none."""
    if len(raw) > MAX_BYTES:
        raise InputError(f"{len(raw):,} bytes long; notebooks of at most {MAX_BYTES:,} bytes are analysed")
    if is_pointer(raw):
        raise InputError(POINTER)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"no notebook: not UTF-8 at byte {error.start}") from None
    cells, notes = code_cells(text)
    huge = [cell for cell in cells if len(cell.text) > MAX_FILE_BYTES]
    notes += [left_out(cell.number, f"{len(cell.text):,} characters long") for cell in huge]
    cells = [cell for cell in cells if len(cell.text) <= MAX_FILE_BYTES]
    if (length := sum(len(cell.text) for cell in cells)) > MAX_FILE_BYTES:
        raise InputError(f"{length:,} characters of code; at most {MAX_FILE_BYTES:,} are analysed")
    translated = [as_python(cell.text) for cell in cells]
    notes += _without_broken_cells(cells, translated)
    rows, lines = [], []
    for cell, python in zip(cells, translated, strict=True):
        start = 0
        for number, (line, original) in enumerate(zip(python, lines_of(cell.text), strict=True), 1):
            rows.append(_Row(cell, number, start, line))
            lines.append(line.text if line.text.endswith(("\n", "\r")) else f"{line.text}\n")
            start += len(original)
    program = _COOKIE.sub(r"\g<before>1ng", "".join(lines), count=2)  # UTF-8 it is, whatever a comment says
    return Notebook(text, program.encode("utf-8", "replace"), tuple(notes), rows)


def _without_broken_cells(cells: list[CodeCell], translated: list[list[Line]]) -> list[str]:
    """Blank the cells that are no Python, which never ran either: the others are the program. Says which."""
    notes = []
    for index, cell in enumerate(cells):
        problem = _problem(_text(translated[index]))
        if problem:
            notes.append(left_out(cell.number, problem))
            translated[index] = [Line("\n", is_made=True) for _ in translated[index]]
    return notes


def _text(lines: list[Line]) -> str:
    text = "".join(line.text for line in lines)
    return text if not text or text.endswith(("\n", "\r")) else f"{text}\n"


def _problem(text: str) -> str | None:
    source = text.encode("utf-8", "replace")
    deep = too_deep(source)
    if deep:
        return deep
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = compile(source.decode(), "cell", "exec", _FLAGS, dont_inherit=True)
    except SyntaxError as error:
        # This Python may be older than the notebook's: LibCST knows the syntax of all.
        return f"syntax error at {error.lineno or 1}:{error.offset or 1}" if _fails(text) else None
    except (ValueError, RecursionError, MemoryError):
        return "cannot be parsed"
    stray = _outside_function(tree) if "return" in text or "yield" in text else None
    return f"`{_STRAY[type(stray)]}` outside a function at line {stray.lineno}" if stray is not None else None


def _outside_function(tree: ast.AST) -> ast.Return | ast.Yield | ast.YieldFrom | None:
    """What only a function may hold, where there is none around it: the parser lets it pass, Python does not."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
            return node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))
    return None


def _fails(text: str) -> bool:
    import libcst as cst

    try:
        cst.parse_module(text)
    except Exception:  # noqa: BLE001  whatever its parser raises: the cell is left out, with a note
        return True
    return False
