"""IPython's own syntax as Python, line for line: what a notebook may hold that no parser of Python reads.

`%matplotlib inline`, `!pip install` and `name?` become ``pass``; `files = !ls` becomes a value that nobody knows;
`%time train(model)` and a cell under `%%time` run their Python and stay; a cell in another language is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_RUNS_PYTHON = frozenset(
    {"time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "wandb", "snakeviz", "scalene", "pyinstrument"}
)
_CELL_MAGIC = re.compile(r"\s*%%(?P<name>\S*)")
_TIMED = re.compile(r"(?P<indent>[ \t]*)%(?:time|timeit|prun|memit)[ \t]+(?:-[a-z]+(?:[ \t]*\d+)?[ \t]+)*(?=[^\s#-])")
_ASSIGNED = re.compile(r"(?P<target>(?:[\w.,* \t]|\[[^\]\r\n]*\]|\([^()\r\n]*\))+?)=[ \t]*[!%](?!=)")
"""Brackets of the target are closed, so that ``print("loss=%f" % loss)`` is none."""
_MAGIC = re.compile(r"(?P<indent>[ \t]*)(?:[!%?]|[/,;][A-Za-z_])")
_RUN = re.compile(r"[ \t]*%run[ \t]")
_HELP = re.compile(r"(?P<indent>[ \t]*)[\w.*\[\]]+\?{1,2}[ \t]*(?:#.*)?[\r\n]*")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_END = re.compile(r"\r\n|\r|\n")
_MIXED = re.compile(r"(?m)^\t+ ")
_PART = re.compile(
    r"""(?P<string>'''(?:\\.|(?!''').)*(?:'''|\Z) | \"\"\"(?:\\.|(?!\"\"\").)*(?:\"\"\"|\Z)
        | '(?:\\.|[^'\\\r\n])*'? | "(?:\\.|[^"\\\r\n])*"?)
      | (?P<comment>\#[^\r\n]*) | (?P<join>\\(?:\r\n|\r|\n)) | (?P<newline>\r\n|\r|\n)
      | (?P<open>[(\[{]) | (?P<close>[)\]}]) | [^'"\#\\\r\n()\[\]{}]+ | \\""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of Python for a line of a cell. `shift` columns were cut out of it behind `indent`, or added before it
    where tabs became spaces; `is_made` tells that its text is ours."""

    text: str
    indent: int = 0
    shift: int = 0
    is_made: bool = False

    def column(self, column: int) -> int:
        """The column in the cell's own line."""
        if self.is_made:
            return self.indent
        if column < self.indent or (column == self.indent and self.shift > 0):
            return min(column, self.indent + min(self.shift, 0))
        return column + self.shift


def as_python(text: str) -> list[Line]:
    """The lines of a cell as Python, one for each line of `text`."""
    lines = lines_of(text)
    magic = _CELL_MAGIC.match(text)
    if magic is None:
        return list(_plain(text, lines, 0))
    if magic["name"] not in _RUNS_PYTHON:
        return [_blank(line) for line in lines]
    first = len(lines_of(text[: magic.end()]))
    return [*map(_blank, lines[:first]), *_plain(text, lines, first)]


def lines_of(text: str) -> list[str]:
    """The physical lines with their ends, cut where Python cuts them."""
    return [match[0] for match in _LINE.finditer(text) if match[0]]


def _blank(line: str) -> Line:
    return Line(_end_of(line), is_made=True)


def _plain(text: str, lines: list[str], at: int) -> Iterator[Line]:
    """Statement by statement: only where one starts can IPython's syntax stand."""
    offset = sum(map(len, lines[:at]))
    expand = _MIXED.search(text) is not None
    while at < len(lines):
        first = _translated(lines[at])
        yield _expanded(first) if expand else first
        if first.is_made:
            stop = at + 1
            while stop < len(lines) and lines[stop - 1].rstrip("\r\n").endswith("\\"):
                stop += 1
            yield from map(_blank, lines[at + 1 : stop])
        else:
            stop = min(len(lines), at + _num_lines(text, offset + first.indent + first.shift))
            yield from map(Line, lines[at + 1 : stop])
        offset += sum(map(len, lines[at:stop]))
        at = stop


def _translated(line: str) -> Line:
    """The first line of a statement."""
    timed = _TIMED.match(line)
    if timed:
        indent = len(timed["indent"])
        return Line(timed["indent"] + line[timed.end() :], indent, timed.end() - indent)
    assigned = _ASSIGNED.match(line)
    if assigned:
        target = assigned["target"]
        return Line(f"{target}= get_ipython().run_line_magic(){_end_of(line)}", len(target), is_made=True)
    magic = _MAGIC.match(line) or _HELP.fullmatch(line)
    if magic:
        told = f"  # {line.strip()}" if _RUN.match(line) else ""  # what is run is used: see `analyzer.leads`
        return Line(f"{magic['indent']}pass{told}{_end_of(line)}", len(magic["indent"]), is_made=True)
    return Line(line)


def _expanded(line: Line) -> Line:
    """Spaces for the tabs of an indentation: after ``\\t `` LibCST refuses a deeper line, which Python reads."""
    body = line.text.lstrip("\t ")
    before = line.text[: len(line.text) - len(body)]
    after = before.expandtabs(8)
    if line.is_made or line.shift or before == after:
        return replace(line, text=after + body)
    return Line(after + body, len(after), len(before) - len(after))


def _num_lines(text: str, offset: int) -> int:
    """How many lines the statement takes that starts at `offset`."""
    depth = count = 0
    while part := _PART.match(text, offset):
        offset = part.end()
        kind = part.lastgroup
        if kind == "newline":
            count += 1
            if depth <= 0:
                return count
        elif kind in ("string", "join"):
            count += len(_END.findall(part[0]))
        elif kind in ("open", "close"):
            depth += 1 if kind == "open" else -1
    return count + 1


def _end_of(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]
