"""Files that a pull request does not change and can break all the same: those that import what it changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import islice

from analyzer.api import Files, imported_paths
from bot.errors import InputError

MAX_DEPENDENTS = 40
"""Nearest first. A change to what everybody imports is looked at where it is used most directly."""
_MAX_SCANNED = 2_000
_MAX_HOPS = 3


def dependents(tree: Files, changed: Collection[str]) -> tuple[str, ...]:
    """The Python files of the tree that import one of `changed`, directly or through others, as far as it was read."""
    found: list[str] = []
    for near in islice(_rings(tree, changed, _MAX_SCANNED), _MAX_HOPS):
        found += near
        if len(found) >= MAX_DEPENDENTS:
            break
    return tuple(found[:MAX_DEPENDENTS])


def all_dependents(tree: Files, path: str) -> tuple[str, ...]:
    """Every Python file of the tree that imports one file, directly or through others, nearest first."""
    return tuple(each for near in _rings(tree, [path], None) for each in near)


def _rings(tree: Files, inner: Collection[str], most: int | None) -> Iterator[list[str]]:
    """The files that import some files, those that import these, and so on; of the tree, `most` are read."""
    importers = _importers(tree, frozenset(tree.paths()), most)
    near, found = set(inner), set(inner)
    while near := {path for imported in near for path in importers[imported]} - found:
        yield sorted(near)
        found |= near


def _importers(tree: Files, known: frozenset[str], most: int | None) -> defaultdict[str, set[str]]:
    """For each path the files that import it."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(path for path in known if path.endswith((".py", ".ipynb")))[:most]:
        content = tree.read(path)
        if content is None:
            continue
        try:
            imported = imported_paths(content, path, known)
        except InputError:  # a broken notebook imports nothing
            continue
        for other in imported:
            importers[other].add(path)
    return importers
