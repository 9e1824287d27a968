"""Is a file fit for the parser? Measured on the text, before anything that recurses sees it.

LibCST's native parser works on the C stack: nesting that is deep enough ends the process, and no ``except`` catches
that. Terms: the *height* of an expression is the number of nodes on the longest way down its tree; every bracket,
attribute, call, subscript, operator and adjacent string adds one. The *block depth* of a statement is the number of
blocks around it, where each ``elif`` counts as one, because it is an ``if`` inside the ``else`` of the one before.
Their sum bounds how deep the parser and everything after it recurse.

    f(a.b.c, (1 + 2) * 3)     height 4: the call, ``*``, the parentheses, ``+``


The scan is one pass of one regular expression; it never recurses. It errs on the deep side (``a == b`` in an
argument default counts ``=`` as an operator), never on the flat side.

`MAX_DEPTH` was chosen from runs of child processes with 8 MiB of stack (libcst 1.9.0, Python 3.11): the smallest depth
that ended one was 1,187 (brackets), other forms survived 4,000 but take quadratic time. The limit leaves a margin of
four; ``tests/analyzer/test_nesting.py`` runs every form at the limit.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MAX_DEPTH = 300
MAX_FILE_BYTES = 1024 * 1024
"""Generated code and data, not programs: the longest module of PyTorch's own tree is below 500 kB."""
MAX_PATTERN_HEIGHT = 10
"""Brackets in a ``case`` pattern: the parser takes twice as long for each (18 brackets: one second)."""
MAX_PARSE_COST = 500_000
"""The parser tries each bracket again for the brackets around it: ``f(f(…))`` takes time with the square of its height,
and so does ``f(1)(2)(3)…``. Cost adds up how far each bracket lies beyond an ordinary place. Measured: 20 to 100 us for
one unit, so that the limit lies below a minute; of 3,500 files of installed packages none has a fortieth of it."""
_FREE_DEPTH = 4
_FREE_OPERATORS = 16
_OPERATORS_PER_UNIT = 8
_FRAMES_PER_LEVEL = 30

_TOKEN = re.compile(
    rb"""
      (?P<string>[bBrRuUfFtT]{0,3}(?:
          '''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)
        | \"\"\"[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:\"\"\"|\Z)
        | '[^'\\\n\r]*(?:\\(?:\r\n|.)[^'\\\n\r]*)*'?
        | "[^"\\\n\r]*(?:\\(?:\r\n|.)[^"\\\n\r]*)*"?))
    | (?P<comment>\#[^\n\r]*)
    | (?P<join>\\\r?\n)
    | (?P<line>(?:\r\n?|\n)[ \t\f\r\n]*)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<comma>,)
    | (?P<semicolon>;)
    | (?P<deeper>\.\.\.|[.]|[-+*/%@&|^~<>=!:]=|\*\*|//|<<|>>|->|[-+*/%@&|^~<>]
        |\b(?:not|and|or|in|is|if|for|lambda|await|yield)\b)
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_FSTRING = re.compile(
    rb"(?P<open>[{(\[])|(?P<close>[)\]}])|(?P<deeper>[-+*/%@&|^~<>.]|\b(?:not|and|or|if|lambda)\b)"
)
_STARTS_STATEMENT = re.compile(
    rb"(?:class|def|import|return|while|with|try|raise|pass|break|continue|global|nonlocal|assert|del|except|finally)\b"
)
_ELIF = re.compile(rb"elif\b")
_CASE = re.compile(rb"case\b")
_ELSE = re.compile(rb"else\b|#|$")


def too_deep(source: bytes) -> str | None:
    """Why `source` must not be parsed, in words for a person; None when it may be.

    Reasons: longer than `MAX_FILE_BYTES`, not decodable as its coding cookie (PEP 263) says, nested deeper than
    `MAX_DEPTH`, or brackets nested so often that the parser would take minutes (`MAX_PARSE_COST`).
    """
    if len(source) > MAX_FILE_BYTES:
        return f"{len(source):,} bytes long; files of at most {MAX_FILE_BYTES:,} bytes are analysed"
    try:
        text = decode(source)
    except ValueError as error:
        return str(error)
    scan = _Scan(text.encode("utf-8", "surrogatepass"))
    scan.run()
    if scan.deepest <= MAX_DEPTH:
        return None if scan.cost <= MAX_PARSE_COST else "so many nested brackets that parsing would take minutes"
    return f"nested {scan.deepest:,} deep at line {scan.line_of_deepest()}; at most {MAX_DEPTH} are analysed"


def encoding_of(source: bytes) -> str:
    """The text encoding that the byte order mark or coding cookie names. Raises ValueError with words for a person."""
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError as error:
        raise ValueError(_encoding_problem(source, str(error))) from None
    if not _is_plain(name):
        raise ValueError(f"the encoding {name} is not supported")
    return name


def decode(source: bytes) -> str:
    """The text of a Python file as its byte order mark or coding cookie says; a mark is not part of it.

    Line ends stay as they are. Raises ValueError with words for a person.
    """
    name = encoding_of(source)
    try:
        return source.decode(name)
    except (UnicodeError, LookupError) as error:
        raise ValueError(_encoding_problem(source, str(error))) from None


def _is_plain(name: str) -> bool:
    """Whether every ASCII byte of a file in this encoding is that character: Python's rule for source files.

    Others (UTF-7, unicode-escape) could hide brackets from a scan and are of no use to anybody honest.
    """
    ascii_bytes = bytes(range(32, 127))
    try:
        return codecs.decode(ascii_bytes, name) == ascii_bytes.decode("ascii") and name != "unicode-escape"
    except (UnicodeError, LookupError, TypeError):
        return False


def _encoding_problem(source: bytes, detail: str) -> str:
    if "unknown encoding" in detail or "encoding problem" in detail:
        return detail
    try:
        source.decode("utf-8")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        return f"not UTF-8 at line {line} (byte 0x{source[error.start]:02x}), and no other encoding is declared"
    return f"cannot be decoded: {detail}"


@contextmanager
def recursion_room() -> Iterator[None]:
    """Let Python code recurse over a tree that `too_deep` accepts: code generation needs several frames a level."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MAX_DEPTH * _FRAMES_PER_LEVEL))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class _Level:
    """The inside of one open bracket, or a statement. Height: what stands in brackets may be the innermost operand of
    every operator around it, so the current element is as high as its highest bracket plus its operators."""

    __slots__ = ("best", "inner", "num_operators")

    def __init__(self) -> None:
        self.best = 0
        self.inner = 0
        self.num_operators = 0

    def next_element(self) -> None:
        self.best = self.height()
        self.inner = self.num_operators = 0

    def height(self) -> int:
        return max(self.best, self.inner + self.num_operators)


class _Scan:
    """State of one pass: open brackets, and the blocks around the current line."""

    __slots__ = ("_after_string", "_blocks", "_elifs", "_levels", "_source", "_start", "cost", "deepest", "where")

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._levels = [_Level()]
        self._blocks = [0]  # indentation widths
        self._elifs = [0]  # elif branches before this line, one entry per block
        self._after_string = False
        self._start = 0
        self.cost = 0
        self.deepest = 0
        self.where = 0

    def run(self) -> None:
        self._start_line(0)
        handlers: dict[str | None, Callable[[re.Match[bytes]], None]] = {
            "string": self._string,
            "line": self._line,
            "open": self._open,
            "close": self._close,
            "comma": self._comma,
            "semicolon": self._end_statement,
            "deeper": self._deeper,
        }
        for token in _TOKEN.finditer(self._source):
            kind = token.lastgroup
            handler = handlers.get(kind)
            if handler is not None:
                handler(token)
                if kind != "line":
                    self._after_string = kind == "string"
        self._end_statement()

    def line_of_deepest(self) -> int:
        return self._source.count(b"\n", 0, self.where) + 1

    def _end_statement(self, token: re.Match[bytes] | None = None) -> None:
        while len(self._levels) > 1:
            self._close()
        height = self._levels[0].height()
        depth = height + len(self._blocks) - 1 + sum(self._elifs)
        if height > MAX_PATTERN_HEIGHT and _CASE.match(self._source, self._start):
            depth += MAX_DEPTH
        if depth > self.deepest:
            self.deepest, self.where = depth, self._start
        self._levels[0] = _Level()
        self._after_string = False

    def _open(self, token: re.Match[bytes]) -> None:
        beyond = len(self._levels) - _FREE_DEPTH
        if beyond > 0:
            self.cost += beyond
        self._levels.append(_Level())

    def _close(self, token: re.Match[bytes] | None = None) -> None:
        if len(self._levels) > 1:
            height = self._levels.pop().height()
            around = self._levels[-1]
            around.inner = max(around.inner, height)
            if around.num_operators > _FREE_OPERATORS:
                self.cost += (around.num_operators - _FREE_OPERATORS) // _OPERATORS_PER_UNIT
            around.num_operators += 1  # the bracket itself: each pair of `f(1)(2)(3)` is a node around the last

    def _comma(self, token: re.Match[bytes]) -> None:
        self._levels[-1].next_element()

    def _deeper(self, token: re.Match[bytes]) -> None:
        self._levels[-1].num_operators += 1

    def _string(self, token: re.Match[bytes]) -> None:
        level = self._levels[-1]
        if self._after_string:
            level.num_operators += 1
        prefix = token[0][:3].split(b"'")[0].split(b'"')[0].lower()
        if b"f" in prefix or b"t" in prefix:
            level.inner = max(level.inner, _fstring_height(token[0]))

    def _line(self, token: re.Match[bytes]) -> None:
        if len(self._levels) > 1 and not _STARTS_STATEMENT.match(self._source, token.end()):
            return
        # After a bracket that is never closed the parser stops at such a word, so the depth starts again.
        self._end_statement()
        self._start_line(token.end())

    def _start_line(self, offset: int) -> None:
        self._start = offset
        if self._source.startswith((b"#", b"\\"), offset) or offset >= len(self._source):
            return
        indent = self._indent(offset)
        while len(self._blocks) > 1 and self._blocks[-1] > indent:
            self._blocks.pop()
            self._elifs.pop()
        if indent > self._blocks[-1]:
            self._blocks.append(indent)
            self._elifs.append(0)
        elif _ELIF.match(self._source, offset):
            self._elifs[-1] += 1
        elif not _ELSE.match(self._source, offset):
            self._elifs[-1] = 0

    def _indent(self, offset: int) -> int:
        first = offset
        while first and self._source[first - 1] in b" \t\f":
            first -= 1
        return len(self._source[first:offset].expandtabs(8))


def _fstring_height(text: bytes) -> int:
    """A bound for the expressions in an f-string. Quotes inside are not told apart: that errs on the deep side."""
    deepest = height = depth = 0
    for token in _IN_FSTRING.finditer(text):
        kind = token.lastgroup
        if kind == "close":
            depth = max(0, depth - 1)
            height = height if depth else 0
        elif kind == "open" and (depth or token[0] == b"{"):
            depth += 1
            height += 1
        elif kind == "deeper" and depth:
            height += 1
        deepest = max(deepest, height)
    return deepest
