"""Make a program small while one finding stays: what a person can post in an issue.

Statements are taken away in shrinking chunks (delta debugging) from the outside in, blocks are replaced by their
bodies, then decorators, named arguments, imported names, texts and parameters go, as long as the analyzer still reports
the rule with the same confidence and severity, and nothing is named that is no longer made. Comments and docstrings
never survive; names do. The work is bounded by a number of analyses, so the result is the same on every machine.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from analyzer.api import Files, Options, analyze, imported_paths
from analyzer.findings import Confidence, Finding
from analyzer.notebooks.files import SUFFIX, NotebookFiles

MAX_ANALYSES = 600
MAX_FILES = 200
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
    near = [finding.path, entry, *(step.path for step in finding.evidence)]
    found = _showing(tree, finding, entry, near) or _showing(tree, finding, entry, [*near, *_reached(tree, entry)])
    if found is None:
        return None
    paths = [path for path in tree.paths() if _python(path) in found.sources]
    before = sum((tree.read(path) or b"").count(b"\n") + 1 for path in paths)
    found.leave_files_out()
    found.reduce()
    found.leave_files_out()  # of some nothing is left
    after = sum(text.count("\n") + 1 for text in found.sources.values())
    return Reduced(found.sources, before, after)


def _showing(tree: NotebookFiles, finding: Finding, entry: str, paths: Iterable[str]) -> _Search | None:
    """A search that begins with some files; None where they do not show the finding by themselves."""
    texts = {path: text for path in dict.fromkeys(paths) if (text := _canonical(tree.read(path))) is not None}
    found = _Search(finding, {_python(path): text for path, text in texts.items()}, _python(entry))
    return found if found.shows(found.sources) else None


def _reached(tree: NotebookFiles, entry: str) -> list[str]:
    """The files that a program imports, nearest first."""
    known = frozenset(tree.paths())
    found = [entry]
    for path in found:
        if len(found) < MAX_FILES:
            more = imported_paths(tree.read(path) or b"", path, known)
            found += [each for each in dict.fromkeys(more) if each not in found]
    return found


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
        self.whole = {path: _Sense.of(text) for path, text in sources.items()}
        """What the files make before any of it is taken away."""

    def shows(self, sources: Mapping[str, str]) -> bool:
        """Whether the finding is still there."""
        if self.left <= 0:
            return False
        self.left -= 1
        options = Options(select=frozenset({self.finding.rule}), min_confidence=Confidence.POSSIBLE)
        report = analyze(_Tree(sources), sorted({self.entry, _python(self.finding.path)} & sources.keys()), options)
        wanted = (
            self.finding.confidence,
            self.finding.severity,
            _python(self.finding.path),
            _clause(self.finding.message),
        )
        found = ((item.confidence, item.severity, item.path, _clause(item.message)) for item in report.findings)
        return wanted in found

    def leave_files_out(self) -> None:
        """Take files away that the finding does not need, in chunks that halve, the farthest first."""
        needed = {self.entry, _python(self.finding.path)}
        size = len(self.sources)
        while size >= 1:
            rest = [path for path in self.sources if path not in needed]
            for end in range(len(rest), 0, -size):
                chunk = rest[max(0, end - size) : end]
                fewer = {path: text for path, text in self.sources.items() if path not in chunk}
                if self.shows(fewer):
                    self.sources = fewer
            size //= 2

    def reduce(self) -> None:
        """Shrink the files until nothing more goes."""
        before: dict[str, str] = {}
        while self.left > 0 and before != self.sources:
            before = dict(self.sources)
            for path in before:
                self._reduce(path)

    def _reduce(self, path: str) -> None:
        while self.left > 0:
            before = self.sources[path]
            for change in (_without_statements, _unwrapped, _without_parts, _without_parameters):
                change(self.sources[path], lambda text: self._accept(path, text))
            if self.sources[path] == before:
                return

    def _accept(self, path: str, text: str) -> bool:
        if (
            text in ("", self.sources[path])
            or not self._makes_sense(path, text)
            or not self.shows({**self.sources, path: text})
        ):
            return False
        self.sources[path] = text
        return True

    def _makes_sense(self, path: str, text: str) -> bool:
        try:
            smaller = _Sense.of(text)
        except SyntaxError:  # a ``try`` without anything behind it
            return False
        others = (_Sense.of(other).imported for key, other in self.sources.items() if key != path)
        return not self.whole[path].lost(smaller, frozenset().union(*others))


def _blocks(tree: ast.AST) -> Iterator[tuple[list[ast.stmt], bool]]:
    """Every list of statements, the outer ones first, and whether nothing may be left of it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop(0)
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                if isinstance(block[0], ast.stmt):
                    yield block, name in ("orelse", "finalbody")
                waiting += block


def _without_statements(text: str, accept: Holds) -> None:
    """Take statements away from each block, in chunks that halve, the last ones first: uses before what they use."""
    tree = ast.parse(text)
    for block, may_be_empty in _blocks(tree):
        size = len(block)
        while size >= 1:
            end = len(block)
            while end > 0:
                old, start = block[:], max(0, end - size)
                block[start:end] = [] if len(block) > end - start or may_be_empty else [ast.Pass()]
                if (len(old) == 1 and isinstance(old[0], ast.Pass)) or not accept(_text(tree)):
                    block[:] = old
                end = start
            size //= 2


def _unwrapped(text: str, accept: Holds) -> None:
    """Put the body of an ``if``, a ``with`` or a ``try`` in its place."""
    tree = ast.parse(text)
    for block, _ in _blocks(tree):
        for at in reversed(range(len(block))):
            node = block[at]
            if isinstance(node, (ast.If, ast.With, ast.Try)):
                old = block[:]
                block[at : at + 1] = node.body
                if not accept(_text(tree)):
                    block[:] = old


def _without_parts(text: str, accept: Holds) -> None:
    """Take decorators, keyword arguments, imported names, annotations and texts away. The arguments of a call that have
    no name stay: what is left of ``range(n)`` would be no call that anybody writes."""
    tree = ast.parse(text)
    plain = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and _takes_nothing(node)}
    for node in list(ast.walk(tree)):
        takes_nothing = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in plain
        for name in ("decorator_list", "keywords", "names", *(["args"] if takes_nothing else [])):
            found = getattr(node, name, None)
            items: list[object] = found if isinstance(found, list) else []
            for item in reversed(items[:]):
                if name != "names" or len(items) > 1:
                    at = items.index(item)
                    del items[at]
                    if not accept(_text(tree)):
                        items.insert(at, item)
        for name, bare in _simpler(node):
            old = getattr(node, name)
            setattr(node, name, bare)
            if not accept(_text(tree)):
                setattr(node, name, old)


def _takes_nothing(node: ast.ClassDef) -> bool:
    """Whether a class has lost what took its arguments."""
    return not node.bases and not any(
        isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in node.body
    )


def _simpler(node: ast.AST) -> Iterator[tuple[str, object]]:
    """What of a node can go, and what stands there then."""
    for name in ("annotation", "returns"):
        if isinstance(node, (ast.arg, ast.FunctionDef, ast.AsyncFunctionDef)) and getattr(node, name, None):
            yield name, None
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield "value", ""


def _without_parameters(text: str, accept: Holds) -> None:
    """Take parameters away that a function does not need, with their defaults, and what its callers give for them."""
    functions = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    for place, function in enumerate(functions):
        for name in reversed([each.arg for each in _parameters(function.args)]):
            changed = _less(text, place, name)
            if changed is not None and accept(changed):
                text = changed


def _parameters(args: ast.arguments) -> list[ast.arg]:
    more = [each for each in (args.vararg, args.kwarg) if each is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *more]


def _less(text: str, place: int, name: str) -> str | None:
    """A program without one parameter of its function number `place`; None where that is no change to make."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    function = functions[place]
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    at = next((at for at, each in enumerate(positional) if each.arg == name), None)
    is_method = bool(positional) and positional[0].arg in ("self", "cls")
    if at == 0 and is_method:
        return None
    if at is None:
        _drop_named(args, name)
    else:
        first_default = len(positional) - len(args.defaults)
        if at >= first_default:
            del args.defaults[at - first_default]
        for group in (args.posonlyargs, args.args):
            group[:] = [each for each in group if each.arg != name]
    called = {function.name} | ({_class_of(tree, function)} if function.name == "__init__" else set())
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _last_name(call.func) in called:
            call.keywords = [each for each in call.keywords if each.arg != name]
            given = None if at is None else at - is_method
            if given is not None and given < len(call.args):
                if any(isinstance(each, ast.Starred) for each in call.args[: given + 1]):
                    return None
                del call.args[given]
    return _text(tree)


def _drop_named(args: ast.arguments, name: str) -> None:
    """Take a parameter away that no position means."""
    for at, each in enumerate(args.kwonlyargs):
        if each.arg == name:
            del args.kwonlyargs[at], args.kw_defaults[at]
            break
    if args.vararg is not None and args.vararg.arg == name:
        args.vararg = None
    if args.kwarg is not None and args.kwarg.arg == name:
        args.kwarg = None


def _class_of(tree: ast.AST, function: ast.AST) -> str:
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return next((node.name for node in classes if function in node.body), "")


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@dataclass(frozen=True, slots=True)
class _Sense:
    """What a file names and what of that it makes: a smaller program should name nothing that only the larger one has
    made, or a reader would look for a cause there."""

    needed: frozenset[str]
    made: frozenset[str]
    imported: frozenset[str]

    @staticmethod
    def of(text: str) -> _Sense:
        """Of a file that parses."""
        needed: set[str] = set()
        made: set[str] = set()
        imported: set[str] = set()
        used = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name):
                (needed if isinstance(node.ctx, ast.Load) else made).add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                (needed if isinstance(node.ctx, ast.Load) else made).add(f".{node.attr}")
            elif isinstance(node, ast.arg):
                made.add(node.arg)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                made |= {node.name, f".{node.name}", *([f"{node.name}()"] if _answers(node) else [])}
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                made.update((each.asname or each.name).partition(".")[0] for each in node.names)
                imported.update(each.name for each in node.names if isinstance(node, ast.ImportFrom))
            elif isinstance(node, ast.ExceptHandler) and node.name:
                made.add(node.name)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                used.add(node.value)
            elif isinstance(node, ast.Call) and node not in used:
                needed.add(f"{_last_name(node.func)}()")
        return _Sense(frozenset(needed), frozenset(made), frozenset(imported))

    def lost(self, smaller: _Sense, others: frozenset[str]) -> bool:
        """Whether a smaller file names, or `others` import, what it no longer makes."""
        return bool(((smaller.needed | others) & self.made) - smaller.made)


def _answers(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a call of it has a value."""
    if isinstance(node, ast.ClassDef):
        return True
    parts = ast.walk(node)
    return any(
        isinstance(each, (ast.Yield, ast.YieldFrom)) or (isinstance(each, ast.Return) and each.value) for each in parts
    )


def _text(tree: ast.AST) -> str:
    try:
        return ast.unparse(tree)
    except (ValueError, AttributeError, RecursionError):  # a block or an expression that lost what it needs
        return ""
