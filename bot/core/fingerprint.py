"""Who a finding is, whatever line it is on: so that nothing is said twice and nothing old is called new.

A fingerprint hashes the rule, the path (at the merge base, for a renamed file) and the tokens of the logical line that
holds the finding, with the tokens of the finding itself. Comments, blank lines, indentation and line breaks inside a
statement do not count. Identical occurrences are told apart by their order.
"""

from __future__ import annotations

import hashlib
import io
import tokenize
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analyzer.findings import Finding, Span

Read = Callable[[str], "bytes | None"]
_LAYOUT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING})


@dataclass(frozen=True, slots=True)
class Context:
    """The statements around a finding, as joined tokens: its own, the one before and the one after."""

    before: str
    own: str
    after: str


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int
    column: int
    statement: int


class Source:
    """One file's text, cut into statements once, asked many times. Of a notebook, whose file is JSON, a statement is a
    line of the file, and a token the text of the finding itself."""

    def __init__(self, text: str, is_notebook: bool = False) -> None:
        self._lines = text.split("\n")
        self._is_notebook = is_notebook
        self._tokens = [] if is_notebook else _tokens(text)
        self._statements: dict[int, list[str]] = {}
        for token in self._tokens:
            self._statements.setdefault(token.statement, []).append(token.text)

    def context(self, span: Span) -> Context:
        """The statements around the start of `span`; its bare line where the text is no Python."""
        number = self._statement_at(span)
        if number is None:
            line = span.start.line
            return Context(self._line(line - 1), self._line(line), self._line(line + 1))
        return Context(self._statement(number - 1), self._statement(number), self._statement(number + 1))

    def tokens_of(self, span: Span) -> str:
        """The tokens that start within `span`, joined."""
        start, end = (span.start.line, span.start.column), (span.end.line, span.end.column)
        if self._is_notebook:
            return self._text(span)
        return " ".join(token.text for token in self._tokens if start <= (token.line, token.column) < end)

    def _statement_at(self, span: Span) -> int | None:
        at = (span.start.line, span.start.column)
        found = None
        for token in self._tokens:
            if token.line == span.start.line and found is None:
                found = token.statement
            if (token.line, token.column) > at:
                break
            found = token.statement
        return found

    def _statement(self, number: int) -> str:
        return " ".join(self._statements.get(number, ()))

    def _text(self, span: Span) -> str:
        last = span.end.column if span.end.line == span.start.line else None
        lines = self._lines[span.start.line - 1 : span.start.line]
        return lines[0][span.start.column : last] if lines else ""

    def _line(self, number: int) -> str:
        return self._lines[number - 1].strip() if 1 <= number <= len(self._lines) else ""


def _tokens(text: str) -> list[_Token]:
    """The tokens that matter; those before the fault where the text cannot be tokenised."""
    found: list[_Token] = []
    statement = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="\n").readline):
            if token.type == tokenize.NEWLINE:
                statement += 1
            elif token.type not in _LAYOUT and token.string:
                found.append(_Token(token.string, token.start[0], token.start[1], statement))
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


def fingerprint(finding: Finding, source_text: str, path: str | None = None, ordinal: int = 0) -> str:
    """The finding's fingerprint, 16 hex digits. `ordinal` counts the identical occurrences before it.

    `path` is the file's path at the merge base, where that differs.
    """
    source = Source(source_text, finding.path.endswith(".ipynb"))
    return _digest(finding, source, path or finding.path, ordinal)


@dataclass(frozen=True, slots=True)
class Identity:
    """`shape` is the fingerprint without the path: it finds a file again that one push of several renamed."""

    fingerprint: str
    shape: str


def fingerprints(findings: Sequence[Finding], read: Read, renames: Mapping[str, str]) -> tuple[str, ...]:
    """One distinct fingerprint for each finding, in order. `renames` maps paths at the head to those at the base."""
    return tuple(item.fingerprint for item in identities(findings, read, renames))


def identities(findings: Sequence[Finding], read: Read, renames: Mapping[str, str]) -> tuple[Identity, ...]:
    """As `fingerprints`, with the shape of each finding."""
    sources = Sources(read)
    seen: Counter[str] = Counter()
    found: dict[int, Identity] = {}
    for index in sorted(range(len(findings)), key=lambda number: findings[number].span):
        finding = findings[index]
        path, source = renames.get(finding.path, finding.path), sources[finding.path]
        plain = _digest(finding, source, path, 0)
        ordinal = seen[plain]
        found[index] = Identity(_digest(finding, source, path, ordinal), _digest(finding, source, "", ordinal))
        seen[plain] += 1
    return tuple(found[index] for index in range(len(findings)))


class Sources:
    """The sources of a tree, each read and cut once."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._known: dict[str, Source] = {}

    def __getitem__(self, path: str) -> Source:
        if path not in self._known:
            self._known[path] = Source((self._read(path) or b"").decode(errors="replace"), path.endswith(".ipynb"))
        return self._known[path]


def _digest(finding: Finding, source: Source, path: str, ordinal: int) -> str:
    parts = (finding.rule, path, source.context(finding.span).own, source.tokens_of(finding.span), str(ordinal))
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]
