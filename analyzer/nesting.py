"""Is a file fit for the parser? Measured on the text, before anything that recurses sees it.

LibCST's native parser works on the C stack: nesting that is deep enough ends the process, and no ``except`` catches
that. Terms: the *height* of an expression is the number of nodes on the longest way down its tree; every bracket,
attribute, call, subscript, operator and adjacent string adds one. The *block depth* of a statement is the number of
blocks around it. Their sum bounds how deep the parser and everything after it recurse.

    f(a.b.c, (1 + 2) * 3)     height 4: the call, ``*``, the parentheses, ``+``

An ``elif`` is an ``if`` inside the ``else`` of the one before, so the parser recurses there too, if on less stack: the
branches above a statement are counted by themselves. What is ours goes through such a chain step by step.

The scan is one pass of one regular expression; it never recurses. It errs on the deep side (``a == b`` in an
argument default counts ``=`` as an operator), never on the flat side.

`MAX_DEPTH` was chosen from runs of child processes with 8 MiB of stack (libcst 1.9.0, Python 3.11): the smallest depth
that ended one was 1,187 (brackets), other forms survived 4,000 but take quadratic time. The limit leaves a margin of
four; ``tests/analyzer/test_nesting.py`` runs every form at the limit.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager

MAX_DEPTH = 300
MAX_ELIFS = 1_000
"""Of 8,000 the parsers survive; Python 3.12 gives up at 3,000."""
MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_FILE_LINES = 300_000
"""Empty ones cost as much as others: a tree of LibCST holds each."""
"""Generated code and data, not programs: the longest module of PyTorch, a table of operators, has 1.4 MB."""
MAX_PATTERN_HEIGHT = 10
"""Brackets in a ``case`` pattern: the parser takes twice as long for each (18 brackets: one second)."""
MAX_PARSE_COST = 500_000
"""The parser tries each bracket again for the brackets around it: ``f(f(…))`` takes time with the square of its height,
and so does ``f(1)(2)(3)…``. Cost adds up how far each bracket lies beyond an ordinary place. Measured: 20 to 100 us for
one unit, so that the limit lies below a minute; of 3,500 files of installed packages none has a fortieth of it."""
MAX_FIELDS_COST = 2_000_000_000
"""Fields of an f-string times its length: Python before 3.12 looks for each field from the string's start on. Measured:
a second for twice as much; 25,000 fields of a name on one line are allowed."""
_FREE_DEPTH = 4
_FREE_OPERATORS = 16
_OPERATORS_PER_UNIT = 8
_FRAMES_PER_LEVEL = 30

_TOKEN = re.compile(
    rb"""
    # What is no token is taken in one go: from one letter to the next, the search would take twice as long. It cannot
    # fail behind that (``other``), so it never goes back.
    (?:[\ \t0-9_]+|[=:](?!=)|(?!(?:not|and|or|in|is|if|for|lambda|await|yield)\b)[A-Za-z]\w*(?!['"]))*
    (?:
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
    | (?P<other>[\x80-\xff]+|.)
    | \Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_FSTRING = re.compile(
    rb"(?P<open>[{(\[])|(?P<close>[)\]}])|(?P<deeper>[-+*/%@&|^~<>.]|\b(?:not|and|or|if|lambda)\b)"
)
_KEYWORD = (
    rb"(?:class|def|import|return|while|with|try|raise|pass|break|continue|global|nonlocal|assert|del|except|finally)\b"
)
_STARTS_STATEMENT = re.compile(_KEYWORD)
_LONG_FSTRINGS = (
    re.compile(rb"'''(?:(?<=[fFtT]''')|(?<=[fFtT][rR]'''))"),
    re.compile(rb'"""(?:(?<=[fFtT]""")|(?<=[fFtT][rR]"""))'),
)
_PATTERN = re.compile(rb"\n *case\b")
_TEXT = re.compile(
    rb"""
      '''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)
    | \"\"\"[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:\"\"\"|\Z)
    | '(?:(?<=[fFtT]')|(?<=[fFtT][rR]'))(?P<one>[^'\\\n]*(?:\\.[^'\\\n]*)*)'?
    | "(?:(?<=[fFtT]")|(?<=[fFtT][rR]"))(?P<two>[^"\\\n]*(?:\\.[^"\\\n]*)*)"?
    | '[^'\\\n]*(?:\\.[^'\\\n]*)*'?
    | "[^"\\\n]*(?:\\.[^"\\\n]*)*"?
    | \#[^\n]*
    """,
    re.VERBOSE | re.DOTALL,
)
"""Texts and comments; of texts with code in them, the code is kept."""
_INDENT = re.compile(rb"\n +")
_BEGINS = re.compile(rb"\n(?<!\\\n) *" + _KEYWORD)
_NAMED = re.compile(rb"\b(?:not|and|or|in|is|if|for|lambda|await|yield)\b")
_NOT_COUNTED = bytes(sorted({*range(256)} - {*b'\0([{.-+*/%@&|^~<>=!:"'}))
_ELIF = re.compile(rb"elif\b")
_CASE = re.compile(rb"case\b")
_ELSE = re.compile(rb"else\b|#|$")


def too_deep(source: bytes) -> str | None:
    """Why `source` must not be parsed, in words for a person; None when it may be.

    Reasons: longer than `MAX_FILE_BYTES` or `MAX_FILE_LINES`, not decodable as its coding cookie (PEP 263) says, nested
    deeper than `MAX_DEPTH`, or so many nested brackets (`MAX_PARSE_COST`) or fields of one f-string (`MAX_FIELDS_COST`)
    that the parser would take minutes.
    """
    if len(source) > MAX_FILE_BYTES:
        return f"{len(source):,} bytes long; files of at most {MAX_FILE_BYTES:,} bytes are analysed"
    if (lines := max(source.count(b"\n"), source.count(b"\r"))) > MAX_FILE_LINES:
        return f"{lines:,} lines long; files of at most {MAX_FILE_LINES:,} lines are analysed"
    try:
        text = decode(source)
    except ValueError as error:
        return str(error)
    encoded = text.encode("utf-8", "surrogatepass")
    if _is_surely_flat(encoded):
        return None
    scan = _Scan(encoded)
    scan.run()
    if scan.deepest > MAX_DEPTH:
        return f"nested {scan.deepest:,} deep at line {scan.line_of(scan.where)}; at most {MAX_DEPTH} are analysed"
    if scan.most_elifs > MAX_ELIFS:
        line = scan.line_of(scan.last_elif)
        return f"{scan.most_elifs:,} `elif` branches above line {line}; at most {MAX_ELIFS:,} are analysed"
    if scan.fields_cost > MAX_FIELDS_COST:
        return "so many fields in one f-string that parsing would take minutes"
    return None if scan.cost <= MAX_PARSE_COST else "so many nested brackets that parsing would take minutes"


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
    if name.lower().replace("_", "-").endswith("unicode-escape"):
        return False
    try:
        return ascii_bytes.decode(name) == ascii_bytes.decode("ascii")  # `decode` knows encodings of text only
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


def _is_surely_flat(source: bytes) -> bool:
    """Whether even a rough count, which no loop in Python makes, is below the limits: so it is for most files. Between
    two words that begin statements, each token that the scan counts adds one at most to its depth."""
    if any(byte in source for byte in (b"\0", b"\r", b"\t", b"\f")) or _PATTERN.search(source) is not None:
        return False
    if any(long.search(source) is not None for long in _LONG_FSTRINGS):
        return False
    text = _TEXT.sub(rb'\g<one>\g<two>"', source)
    num_blocks = max(map(len, _INDENT.findall(text)), default=0) + text.count(b"elif")
    pieces = _NAMED.sub(b"~", _BEGINS.sub(b"\0", text)).translate(None, _NOT_COUNTED).split(b"\0")
    sizes = [*map(len, pieces)]
    return max(sizes) + num_blocks <= MAX_DEPTH and sum(size * size for size in sizes) <= MAX_PARSE_COST


_Level = tuple[int, int, int]
"""The inside of an open bracket, or a statement: how high its finished elements are at most, how high the brackets in
the current one are, and its operators. What stands in brackets may be the innermost operand of every operator around
it, so the current element is as high as its highest bracket plus its operators."""


class _Scan:
    """State of one pass: the blocks around the current line, and what was found. Of the seven kinds of token there are
    tens of thousands in a file, so `run` handles the frequent ones itself, on plain numbers."""

    __slots__ = (
        "_blocks", "_elifs", "_source", "_start", "cost", "deepest", "fields_cost", "last_elif", "most_elifs", "where"
    )  # fmt: skip

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._blocks = [0]  # indentation widths
        self._elifs = [0]  # elif branches before this line, one entry per block
        self._start = 0
        self.cost = 0
        self.fields_cost = 0
        self.deepest = self.most_elifs = 0
        self.where = self.last_elif = 0

    def run(self) -> None:
        source, around = self._source, list[_Level]()
        best = inner = num_operators = 0
        after_string = False
        self._start_line(0, 0)
        for token in _TOKEN.finditer(source):
            kind = token.lastgroup
            if kind == "deeper":
                num_operators += 1
            elif kind == "comma":
                best, inner, num_operators = max(best, inner + num_operators), 0, 0
            elif kind == "open":
                self.cost += max(0, len(around) + 1 - _FREE_DEPTH)
                around.append((best, inner, num_operators))
                best = inner = num_operators = 0
            elif kind == "close":
                if around:
                    best, inner, num_operators = self._closed(max(best, inner + num_operators), around.pop())
            elif kind == "string":
                num_operators += after_string
                inner = max(inner, self._height(token[kind]))
                after_string = True
                continue
            elif kind == "semicolon" or (
                # After a bracket that is never closed the parser stops at such a word, so the depth starts again.
                kind == "line" and (not around or _STARTS_STATEMENT.match(source, token.end()))
            ):
                self._end_statement((best, inner, num_operators), around)
                best = inner = num_operators = 0
                if kind == "line":
                    self._start_line(token.start(kind), token.end())
            else:  # a comment, a line end inside brackets, or no token
                continue
            after_string = False
        self._end_statement((best, inner, num_operators), around)

    def line_of(self, offset: int) -> int:
        return self._source.count(b"\n", 0, offset) + 1

    def _height(self, text: bytes) -> int:
        """How high the expressions in a string are; what its fields cost is noted."""
        num_fields = text.count(b"{")
        height = _string_height(text) if num_fields else 0
        if height:
            self.fields_cost = max(self.fields_cost, num_fields * len(text))
        return height

    def _closed(self, height: int, level: _Level) -> _Level:
        """The level around a bracket that closes. The bracket itself counts: each pair of ``f(1)(2)(3)`` is a node
        around the last."""
        best, inner, num_operators = level
        if num_operators > _FREE_OPERATORS:
            self.cost += (num_operators - _FREE_OPERATORS) // _OPERATORS_PER_UNIT
        return best, max(inner, height), num_operators + 1

    def _end_statement(self, level: _Level, around: list[_Level]) -> None:
        best, inner, num_operators = level
        while around:
            best, inner, num_operators = self._closed(max(best, inner + num_operators), around.pop())
        height = max(best, inner + num_operators)
        depth = height + len(self._blocks) - 1
        if height > MAX_PATTERN_HEIGHT and _CASE.match(self._source, self._start):
            depth += MAX_DEPTH
        if depth > self.deepest:
            self.deepest, self.where = depth, self._start

    def _start_line(self, line_end: int, offset: int) -> None:
        """A statement begins at `offset`, behind the line end and the blanks that begin at `line_end`."""
        self._start = offset
        blocks, elifs = self._blocks, self._elifs
        if self._source.startswith((b"#", b"\\"), offset) or offset >= len(self._source):
            return
        blanks = self._source[line_end:offset]
        indent = len(blanks[len(blanks.rstrip(b" \t\f")) :].expandtabs(8))
        while len(blocks) > 1 and blocks[-1] > indent:
            blocks.pop()
            elifs.pop()
        if indent > blocks[-1]:
            blocks.append(indent)
            elifs.append(0)
        elif _ELIF.match(self._source, offset):
            elifs[-1] += 1
            if (num_elifs := sum(elifs)) > self.most_elifs:
                self.most_elifs, self.last_elif = num_elifs, offset
        elif elifs[-1] and not _ELSE.match(self._source, offset):
            elifs[-1] = 0


def _string_height(text: bytes) -> int:
    """How high the expressions in a string are: none is in a plain one."""
    if text.startswith((b"'", b'"')):
        return 0
    prefix = text[:3].split(b"'")[0].split(b'"')[0].lower()
    return _fstring_height(text) if b"f" in prefix or b"t" in prefix else 0


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
