"""Where in a file a program starts: the functions that may show something, and those that lead there.

A program runs the body of its file, and then the functions that nobody called, each with what an unseen caller would
give it. Of a library's functions few can show anything: those whose text has one of the acts of `analyzer.quiet`, or
what bears on the whole program beside an act, or a shape that a rule sees. With them start the functions of the file
that name one of them, and those that name these: what they hand on may decide. All others are run where one of these
calls them, and not for their own sake. See ``docs/decisions/0013``.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from analyzer import hidden_state, quiet
from analyzer.syntax import ir
from analyzer.syntax.scope import of_type

_BEARS = re.compile(
    rb"""
      rand|shuffle|permutation|\bchoices?\(|\bsample\(
    | distributed|\bdist\.|[dD]ata_?[pP]arallel|[sS]ampler|all_reduce|all_gather|barrier|\brank\b
    | \bdef\ on_
    | \b(?:load|eval|valid|test|fit|predict|infer|learn|run|main)\w*\(
    """,
    re.VERBOSE,
)
"""What speaks of the whole program, where it has an act: draws, processes, hooks, and what may act in another file."""
_GIVEN = re.compile(rb"\n[ \t]*((?:self|cls)\.)?([A-Za-z_]\w*)[ \t]*(?::[^=\n]{0,80})?=(?!=)")
"""A name or an attribute that is given something: the last one before an act is what is given it. A line begins with
the end of the one before, which `re` finds ten times as fast as ``^``."""
_RENAMED = re.compile(rb"\n[ \t]*(?:from[ \t]+torch[\w.]*[ \t]+)?import[ \t][^\n]*\bas\b[^\n]*")
_AS = re.compile(rb"\bas[ \t]+(\w+)")
_USUAL = frozenset(
    {
        b"np",
        b"nn",
        b"F",
        b"optim",
        b"dist",
        b"mp",
        b"plt",
        b"pd",
        b"init",
        b"data",
        b"utils",
        b"tud",
        b"pl",
        b"L",
        b"sns",
    }
)
"""Names of modules: their functions are acts by their own names."""
_WORD = re.compile(rb"[\w\x80-\xff]+")
_UNNAMED = frozenset({"forward", "__call__", "__init__", "__enter__", "__iter__", "__getitem__", "__next__", "__len__"})
"""Methods that run where nobody names them: an instance is called, made, entered, iterated over."""
Words = Mapping[int, frozenset[bytes]]
"""The words in the text of each function, its own name aside."""


def starts(source: bytes, unit: ir.Unit) -> frozenset[int] | None:
    """The numbers of the functions of a file that a program starts at; None: all of them."""
    functions = of_type(unit, ir.FunctionDef)
    if any(function.lines is None for function in functions):
        return None
    text = quiet.said(source)
    spans = _spans(functions, text)
    words = {each.at: _words(each, text[first:end]) for each, (first, end) in zip(functions, spans, strict=True)}
    shown = quiet.telling(source, unit)
    acts = sorted(shown)
    begins = {
        each.at
        for each, span in zip(functions, spans, strict=True)
        if shown and (_holds(acts, *span) or _BEARS.search(text, *span))
    }
    carriers = frozenset(_carriers(text, shown, spans)) if shown or b" as " in text else frozenset()
    begins.update(each.at for each in functions if not words[each.at].isdisjoint(carriers))
    begins.update(function.at for function in quiet.running(unit))
    if quiet.has_modules(text):
        begins.update(function.at for function in quiet.dropping(unit))
    found = _with_callers(unit, functions, begins, words)
    found.update([*_running_parts(unit, found)])
    loops = sorted(quiet.moving(unit))
    found.update(function.at for function in functions if _holds(loops, function.at, function.last + 1))
    if quiet.has_modules(text):
        found.update(_hiding(unit, words))
    return frozenset(found)


def _carriers(text: bytes, acts: Iterable[int], spans: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """Names that stand for an act: what is given one outside of functions (``loss_fn = nn.CrossEntropyLoss()``, also as
    an item of a table), attributes, and what an import of PyTorch calls otherwise (``cross_entropy as ce``)."""
    lines = b"\n" + text  # a match begins where its line begins in `text`
    for match in _RENAMED.finditer(lines):
        yield from (name for name in _AS.findall(match[0]) if name not in _USUAL)
    given = list(_GIVEN.finditer(lines))
    begins, outside = [match.start() for match in given], _Outside(spans)
    for act in acts:
        index = bisect_right(begins, act)
        if not index:
            continue
        match = given[index - 1]
        if outside.holds(act) or (match[1] and b"\n" not in text[match.end() - 1 : act]):
            yield match[2]


class _Outside:
    """The places of a text that lie in no function."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for begin, end in sorted(spans):
            if not self._ends or begin >= self._ends[-1]:
                self._begins.append(begin)
                self._ends.append(end)

    def holds(self, place: int) -> bool:
        """Whether a place is one."""
        index = bisect_right(self._begins, place) - 1
        return index < 0 or place >= self._ends[index]


def _spans(functions: Iterable[ir.FunctionDef], text: bytes) -> list[tuple[int, int]]:
    """Where the text of each function begins and ends."""
    begins = [0, *(match.end() for match in re.finditer(rb"\n", text)), len(text)]
    return [(begins[lines[0] - 1], begins[lines[1]]) for function in functions if (lines := function.lines)]


def _words(function: ir.FunctionDef, text: bytes) -> frozenset[bytes]:
    found, own = _WORD.findall(text), function.name.encode()
    return frozenset(found) - {own} if found.count(own) < 2 else frozenset(found)


def _holds(places: Sequence[int], first: int, end: int) -> bool:
    """Whether any of these sorted places is in a range."""
    index = bisect_left(places, first)
    return index < len(places) and places[index] < end


def _with_callers(unit: ir.Unit, functions: Iterable[ir.FunctionDef], begins: set[int], words: Words) -> set[int]:
    """Functions with all that name one of them, or the class of one that runs unnamed."""
    own = {each.at: cls.name for cls in of_type(unit, ir.ClassDef) for each in _methods(cls)}
    found: set[int] = set()
    fresh = [function for function in functions if function.at in begins]
    while fresh:
        found.update(function.at for function in fresh)
        names = {function.name for function in fresh if not function.name.startswith("__")}
        names.update(own[function.at] for function in fresh if function.at in own and function.name in _UNNAMED)
        spoken = frozenset(name.encode() for name in names)
        fresh = [each for each in functions if each.at not in found and not words[each.at].isdisjoint(spoken)]
    return found


def _running_parts(unit: ir.Unit, begins: Collection[int]) -> Iterator[int]:
    """Methods that call an attribute (``self.model(x)``), in a class of which another method starts: that one may have
    set its mode."""
    for cls in of_type(unit, ir.ClassDef):
        methods = _methods(cls)
        names = {method.name for method in methods}
        for method in methods if any(method.at in begins for method in methods) else ():
            this = method.params[0].name if method.params else ""
            calls = (name.split(".") for name, how in method.uses.items() if "()" in how)
            if any(len(parts) == 2 and parts[0] == this and parts[1] not in names for parts in calls):
                yield method.at


def _hiding(unit: ir.Unit, words: Words) -> Iterator[int]:
    """The methods that name what their class may hide, and its ``__init__``."""
    for cls, hidden in hidden_state.hiding(unit):
        names = frozenset(name.encode() for name in hidden)
        for method in _methods(cls):
            if method.name == "__init__" or not words[method.at].isdisjoint(names):
                yield method.at


def _methods(cls: ir.ClassDef) -> list[ir.FunctionDef]:
    return [each for each in cls.body if isinstance(each, ir.FunctionDef)]
