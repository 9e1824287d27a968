"""The code cells of a notebook's JSON, with the place of every character in the raw text."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from analyzer.errors import InputError

_TOKEN = re.compile(
    r'[ \t\r\n]*(?:(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<mark>[{}\[\]:,])|(?P<scalar>[^\s{}\[\]:,"]+))', re.DOTALL
)
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL
)
_PYTHON = re.compile(r"(?i)i?python[\d.]*|")
MAX_CELLS = 10_000
"""A person writes a few hundred; each may cost a note and an attempt to parse it."""
_LONGEST_KEY = len('""') + len("worksheets") * len("\\u0077")
"""Of the keys that lead to a source, each letter of which may be an escape."""

Path = tuple["str | int", ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """One JSON string of a cell's source: where its text starts in the cell, and its body in the raw text."""

    start: int
    raw: int


@dataclass(frozen=True, slots=True)
class CodeCell:
    """One code cell. `number` counts all cells from 1; `is_list` tells how its source is written."""

    number: int
    text: str
    pieces: tuple[Piece, ...]
    is_list: bool

    def raw_offset(self, raw: str, index: int) -> int:
        """Where the character `index` of the cell stands in the raw text; the end of the text is a place, too."""
        at = bisect_right([piece.start for piece in self.pieces], index) - 1
        piece = self.pieces[max(0, at)]
        offset = piece.raw
        for _ in range(index - piece.start):
            match = _CHARACTER.match(raw, offset)
            if match is None:
                break
            offset = match.end()
        return offset


def code_cells(raw: str) -> tuple[list[CodeCell], list[str]]:
    """The code cells in order, and notes on those that hold no text. Raises `InputError` where `raw` is no notebook in
    Python."""
    cells = list(_cells(_document(raw)))
    if len(cells) > MAX_CELLS:
        raise InputError(f"a notebook of {len(cells):,} cells; at most {MAX_CELLS:,} are analysed")
    sources = _sources(raw)
    found: list[CodeCell] = []
    notes: list[str] = []
    for number, (path, cell) in enumerate(cells, 1):
        if not isinstance(cell, dict):
            notes.append(left_out(number, "not a JSON object"))
        elif cell.get("cell_type") == "code":
            key = "source" if "source" in cell else "input"
            source = cell.get(key)
            strings: list[Any] = source if isinstance(source, list) else [source]
            if all(isinstance(item, str) for item in strings):
                found.append(_cell(number, strings, isinstance(source, list), sources, (*path, key)))
            else:
                problem = "its source is neither text nor a list of lines" if key in cell else "it has no source"
                notes.append(left_out(number, problem))
    return found, notes


def left_out(number: int, problem: str) -> str:
    """What is said of a cell that is no part of the program."""
    return f"cell {number}: {problem}; the other cells are analysed"


def _cell(number: int, strings: list[str], is_list: bool, sources: Mapping[Path, int], path: Path) -> CodeCell:
    pieces: list[Piece] = []
    length = 0
    for index, text in enumerate(strings):
        place = sources[(*path, index) if is_list else path]
        if text or not pieces:
            pieces.append(Piece(length, place))
        length += len(text)
    return CodeCell(number, "".join(strings), tuple(pieces), is_list)


def _document(raw: str) -> Mapping[str, Any]:
    try:
        document = json.loads(raw, parse_int=float)  # no number matters, and Python reads no `int` of 4,400 digits
    except json.JSONDecodeError as error:
        raise InputError(f"no notebook: broken JSON at {error.lineno}:{error.colno} ({error.msg})") from None
    except RecursionError:
        raise InputError("no notebook: JSON nested too deeply") from None
    if not isinstance(document, dict) or not any(
        isinstance(document.get(key), list) for key in ("cells", "worksheets")
    ):
        raise InputError("no notebook: JSON without a list of cells")
    language = _language(document)
    if not _PYTHON.fullmatch(language):
        raise InputError(f"a notebook in {language[:40]}, not in Python")
    return document


def _language(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    for key, name in (("kernelspec", "language"), ("language_info", "name")):
        section = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(section, dict) and isinstance(section.get(name), str):
            return str(section[name])
    return ""


def _cells(document: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Path and content of every cell; before format 4 they lay in worksheets."""
    if isinstance(document.get("cells"), list):
        yield from ((("cells", index), cell) for index, cell in enumerate(document["cells"]))
        return
    for at, sheet in enumerate(document["worksheets"]):
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        for index, cell in enumerate(cells if isinstance(cells, list) else []):
            yield ("worksheets", at, "cells", index), cell


def _sources(raw: str) -> dict[Path, int]:
    """The offset of the body of every string that may belong to a source. `raw` is valid JSON; of equal keys the last
    one counts, as for `json.loads`."""
    found: dict[Path, int] = {}
    path: list[str | int] = []  # the key or index of every open container
    is_key = False
    for token in _TOKEN.finditer(raw):
        mark, string = token["mark"], token["string"]
        if string is not None:
            if is_key:
                path[-1] = json.loads(string) if len(string) <= _LONGEST_KEY else ""
            elif path and _is_source(path):
                found[tuple(path)] = token.start("string") + 1
        elif mark in ("{", "["):
            path.append("" if mark == "{" else 0)
            is_key = mark == "{"
        elif mark in ("}", "]"):
            path.pop()
            is_key = False
        elif mark == ":":
            is_key = False
        elif mark == ",":
            last = path[-1]
            is_key = isinstance(last, str)
            path[-1] = "" if isinstance(last, str) else last + 1
    return found


def _is_source(path: list[str | int]) -> bool:
    depth = 2 if path[0] == "cells" else 4 if path[0] == "worksheets" else len(path)
    return len(path) > depth and path[depth] in ("source", "input")
