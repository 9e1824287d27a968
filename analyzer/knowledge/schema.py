"""What a row of API knowledge may say; the tables are read once, checked and frozen.

A row names a function, class or method (``Tensor.detach``: methods are named by the kind of their receiver),
or a family
of them with ``*``. The exact name wins, then the longest pattern.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib import resources
from typing import Any

from analyzer import extensions
from analyzer.errors import InputError
from analyzer.knowledge.ownership import Framework, parse_frameworks
from analyzer.toml import parse_toml


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Knowledge about one API.

    `returns`: ``tensor``, ``values and indices``, ``scalar``, ``none``, ``self``, ``argument``,
    ``arguments``, ``parameters``, ``batch``, ``unknown``, or the kind of object it creates (``Optimizer``).
    `graph`: of a returned tensor: ``arguments`` (as its inputs), ``none``, ``parameters`` (it owns some).
    `effect`: what it does; `on`: to ``self`` or to the argument of that number.
    `activation`: the function that made the numbers (``softmax``; ``raw``: a layer with weights did);
    `keeps_activation`: they are those of the input; `bounds`: but raw ones are brought into a range.
    `reduces`: a loss that gives one number, by its options ``reduction`` and ``size_average``.
    `expects`: what a loss wants as its first input. `params`: names of the positional parameters.
    `horizon`: the parameter that says after how many of its steps a scheduler is done.
    `effects`: several in order, each with what it is on (``backward 0``, ``step self``). `gives`: the kind that its
    first argument must be, where that is not known. `runs`: the number of an argument that is a function, which a
    framework calls for every step, and the kinds of what it is given.
    `random`: the global generators that it seeds (effect ``seed``) or draws from (effect ``draw``), the latter unless
    `unless` is given, a keyword for a generator or a seed of its own.
    `modes`: ``dependent`` for a module with something that behaves differently in evaluation mode, ``rate`` where that
    is how much it drops, its first argument; `born`: ``eval`` for one that comes in that mode, but if `unless` is given
    and true; `parts`: ``dependent`` where most of its children do as well; `between`: the keyword and the number of the
    argument that counts its layers, where it drops out between them: one has nothing to drop.
    `place`: ``host`` for a tensor that is made there unless a device is given, ``copied to host`` if so wherever its
    input is; `is_made_up`: its numbers are constant or random. `is_mixed`: a data set in a random order.
    """

    name: str
    source: str
    returns: str = ""
    graph: str = "arguments"
    activation: str = ""
    keeps_activation: bool = False
    bounds: bool = False
    effect: str = ""
    on: str = "self"
    expects: str = ""
    reduces: bool = False
    params: tuple[str, ...] = ()
    horizon: str = ""
    since: str = ""
    random: tuple[str, ...] = ()
    unless: str = ""
    modes: str = ""
    born: str = ""
    parts: str = ""
    effects: tuple[str, ...] = ()
    gives: str = ""
    runs: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
    place: str = ""
    is_made_up: bool = False
    is_mixed: bool = False


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All rows, exact and patterns, and the frameworks."""

    exact: Mapping[str, Row]
    patterns: tuple[Row, ...]
    frameworks: tuple[Framework, ...] = ()
    found: dict[str, Row | None] = field(default_factory=dict)
    owners: dict[str, Framework | None] = field(default_factory=dict)
    by_start: tuple[tuple[str, Row], ...] = field(init=False)
    """The patterns by the plain text they begin with: translating one costs more than asking it."""
    libraries: frozenset[str] = field(init=False)
    """What the tables know something of, by the first part of its name."""

    def __post_init__(self) -> None:
        starts = tuple((_SPECIAL.split(row.name, maxsplit=1)[0], row) for row in self.patterns)
        object.__setattr__(self, "by_start", starts)
        names = (*self.exact, *(start for start, _ in starts))
        object.__setattr__(self, "libraries", frozenset(name.partition(".")[0] for name in names))

    def row(self, name: str) -> Row | None:
        """The row for a name, if any."""
        try:
            return self.found[name]
        except KeyError:
            row = self.found[name] = self.exact.get(name) or self._by_pattern(name)
            return row

    def framework(self, name: str) -> Framework | None:
        """The framework that has a base class of this qualified name, if any."""
        if name not in self.owners:
            self.owners[name] = next((each for each in self.frameworks if each.matches(name)), None)
        return self.owners[name]

    def _by_pattern(self, name: str) -> Row | None:
        starting = [row for start, row in self.by_start if name.startswith(start)]
        matching = [row for row in starting if fnmatch.fnmatchcase(name, row.name)]
        return max(matching, key=lambda row: len(row.name), default=None)


_SPECIAL = re.compile(r"[*?\[]")
_LISTS = ("params", "random", "effects", "runs", "between")
_FIELDS = {item.name for item in fields(Row)}


def parse(text: str, place: str) -> list[Row]:
    """The rows of one table; `place` names it in errors. A row may list several names."""
    return _rows(parse_toml(text), place)


def _rows(tables: Mapping[str, Any], place: str) -> list[Row]:
    rows: list[Row] = []
    for entry in tables.get("api", []):
        wrong = entry.keys() - _FIELDS - {"names"}
        if wrong or not entry.get("source"):
            raise InputError(f"{place}: row {entry.get('name')!r}: unknown {sorted(wrong)} or no source")
        names = entry.pop("names", None) or [entry["name"]]
        entry.pop("name", None)
        entry.update({key: tuple(entry.get(key, ())) for key in _LISTS})
        rows.extend(Row(name=name, **entry) for name in names)
    return rows


def _tables(package: Any) -> tuple[list[Row], list[Framework]]:
    """The tables of a package: all of them, or, where one is wrong, an exception."""
    rows: list[Row] = []
    frameworks: list[Framework] = []
    for item in sorted(resources.files(package).iterdir(), key=lambda item: item.name):
        if item.name.endswith(".toml"):
            tables = parse_toml(item.read_text(encoding="utf-8"))
            rows += _rows(tables, item.name)
            frameworks += parse_frameworks(tables, item.name)
    return rows, frameworks


@lru_cache(maxsize=1)
def knowledge() -> Knowledge:
    """The built-in tables and those of entry points ``preflight.knowledge`` (a package that holds ``*.toml``)."""
    rows: list[Row] = []
    frameworks: list[Framework] = []
    for tables in (_tables("analyzer.knowledge"), *extensions.loaded(extensions.KNOWLEDGE, _tables)):
        rows += tables[0]
        frameworks += tables[1]
    exact = {row.name: row for row in rows if "*" not in row.name}
    return Knowledge(exact, tuple(row for row in rows if "*" in row.name), tuple(frameworks))
