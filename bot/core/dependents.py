"""Files that a pull request does not change and can break all the same: those that import what it changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from analyzer.api import imported_paths
from bot.errors import InputError
from bot.sources.base import Tree

MAX_DEPENDENTS = 40
"""Nearest first. A change to what everybody imports is looked at where it is used most directly."""
_MAX_SCANNED = 2_000
_MAX_HOPS = 3


def dependents(tree: Tree, changed: Collection[str]) -> tuple[str, ...]:
    """The Python files of the tree that import one of `changed`, directly or through others, as far as it was read."""
    known = frozenset(tree.paths())
    importers = _importers(tree, known)
    found: dict[str, None] = {}
    near = set(changed)
    for _ in range(_MAX_HOPS):
        near = {path for imported in near for path in importers[imported]} - found.keys() - set(changed)
        found |= dict.fromkeys(sorted(near))
        if not near or len(found) >= MAX_DEPENDENTS:
            break
    return tuple(found)[:MAX_DEPENDENTS]


def _importers(tree: Tree, known: frozenset[str]) -> defaultdict[str, set[str]]:
    """For each path the files that import it."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(path for path in known if path.endswith((".py", ".ipynb")))[:_MAX_SCANNED]:
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
