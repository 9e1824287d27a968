"""Make a program small while one finding stays: what a person can post in an issue.

Statements are taken away in shrinking chunks (delta debugging) from the outside in, blocks are replaced by their
bodies, then decorators, arguments, imported names and texts go, as long as the analyzer still reports the rule with the
same confidence. Comments and docstrings never survive; names do. The work is bounded by a number of analyses, so the
result is the same on every machine.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from analyzer.api import Files, Options, analyze
from analyzer.findings import Confidence, Finding
from analyzer.notebooks.files import SUFFIX, NotebookFiles

MAX_ANALYSES = 600
Holds = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Reduced:
    """The files that still show the finding, the one it is in first; the number of lines before and after."""

    sources: Mapping[str, str]
    num_before: int
    num_after: int


class _Tree:
    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def paths(self) -> Collection[str]:
        return self._sources.keys()

    def read(self, path: str) -> bytes | None:
        text = self._sources.get(path)
        return None if text is None else text.encode("utf-8", "replace")


def reduced(files: Files, finding: Finding, entry: str) -> Reduced | None:
    """The smallest program found that shows `finding`, when `entry` is analysed; None where its files alone do not."""
    tree = NotebookFiles(files)
    names = dict.fromkeys([finding.path, entry, *(step.path for step in finding.evidence)])
    texts = {path: text for path in names if (text := _canonical(tree.read(path))) is not None}
    found = _Search(finding, {_python(path): text for path, text in texts.items()}, _python(entry))
    if not found.shows(found.sources):
        return None
    before = sum((tree.read(path) or b"").count(b"\n") + 1 for path in texts)
    for path in reversed(list(found.sources)):
        if path != _python(entry) and found.shows({key: text for key, text in found.sources.items() if key != path}):
            del found.sources[path]
    for path in list(found.sources):
        found.reduce(path)
    after = sum(text.count("\n") + 1 for text in found.sources.values())
    return Reduced(found.sources, before, after)


def _clause(message: str) -> str:
    """What the finding says first, without a name of the program: a rule can say several things of one file."""
    return re.split(r"[.:;,] ", re.sub(r"`[^`]*`|\([^()]*\)|\d+", "", message), maxsplit=1)[0]


def _python(path: str) -> str:
    return path.removesuffix(SUFFIX) + ".py" if path.endswith(SUFFIX) else path


def _canonical(source: bytes | None) -> str | None:
    try:
        return None if source is None else ast.unparse(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Search:
    def __init__(self, finding: Finding, sources: dict[str, str], entry: str) -> None:
        self.finding = finding
        self.sources = sources
        self.entry = entry
        self.left = MAX_ANALYSES

    def shows(self, sources: Mapping[str, str]) -> bool:
        """Whether the finding is still there."""
        if self.left <= 0:
            return False
        self.left -= 1
        options = Options(select=frozenset({self.finding.rule}), min_confidence=Confidence.POSSIBLE)
        report = analyze(_Tree(sources), sorted({self.entry, _python(self.finding.path)} & sources.keys()), options)
        wanted = (self.finding.confidence, _python(self.finding.path), _clause(self.finding.message))
        return any((item.confidence, item.path, _clause(item.message)) == wanted for item in report.findings)

    def reduce(self, path: str) -> None:
        """Shrink one file until nothing more goes."""
        while self.left > 0:
            before = self.sources[path]
            for change in (_without_statements, _unwrapped, _without_parts):
                change(self.sources[path], lambda text: self._accept(path, text))
            if self.sources[path] == before:
                return

    def _accept(self, path: str, text: str) -> bool:
        if not self.shows({**self.sources, path: text}):
            return False
        self.sources[path] = text
        return True


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements, the outer ones first."""
    waiting = [tree]
    while waiting:
        node = waiting.pop(0)
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                if isinstance(block[0], ast.stmt):
                    yield block
                waiting += block


def _without_statements(text: str, accept: Holds) -> None:
    """Take statements away from each block, in chunks that halve."""
    tree = ast.parse(text)
    for block in _blocks(tree):
        size = len(block)
        while size >= 1:
            at = 0
            while at < len(block):
                old = block[:]
                block[at : at + size] = [] if len(block) > size else [ast.Pass()]
                if old == block or isinstance(old[0], ast.Pass) or not accept(_text(tree)):
                    block[:] = old
                    at += size
            size //= 2


def _unwrapped(text: str, accept: Holds) -> None:
    """Put the body of an ``if``, a ``with`` or a ``try`` in its place."""
    tree = ast.parse(text)
    for block in _blocks(tree):
        for at in reversed(range(len(block))):
            node = block[at]
            if isinstance(node, (ast.If, ast.With, ast.Try)):
                old = block[:]
                block[at : at + 1] = node.body
                if not accept(_text(tree)):
                    block[:] = old


def _without_parts(text: str, accept: Holds) -> None:
    """Take decorators, keyword arguments, imported names, annotations' neighbours and texts away."""
    tree = ast.parse(text)
    for node in list(ast.walk(tree)):
        for name in ("decorator_list", "keywords", "names", "args"):
            items = getattr(node, name, None)
            if not isinstance(items, list):
                continue
            for item in reversed(items[:]):
                if name != "names" or len(items) > 1:
                    at = items.index(item)
                    del items[at]
                    if not accept(_text(tree)):
                        items.insert(at, item)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
            old, node.value = node.value, ""
            if not accept(_text(tree)):
                node.value = old


def _text(tree: ast.AST) -> str:
    try:
        return ast.unparse(tree)
    except (ValueError, AttributeError, RecursionError):  # a block or an expression that lost what it needs
        return ""
