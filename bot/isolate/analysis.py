"""The child of ``preflight check``: takes targets one by one, answers each with a report.

First line in: ``{"root", "paths", "texts", "hidden", "options", "report_on", "memory_bytes"}``; then one ``{"target"}``
a line. Out: ``{"ready"}`` once, ``{"at": path}`` for each file read, ``{"report", "reads"}`` for each
target: `reads` are the digests of the files that its report was made from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from analyzer.api import Options, analyze_each
from analyzer.findings import Confidence
from bot.isolate.cache import digest_of
from bot.isolate.child import Announcing, answers, confine, requests


class ListedFiles:
    """The listed files of a folder. `texts` stand in for what is on disk: edits that are not written yet."""

    def __init__(self, root: Path, paths: Collection[str], texts: Mapping[str, bytes]) -> None:
        self._root = root
        self._paths = frozenset(paths)
        self._texts = texts

    def paths(self) -> Collection[str]:
        """Every listed path."""
        return self._paths

    def read(self, path: str) -> bytes | None:
        """The bytes of one file; None where it is not listed or cannot be read."""
        if path in self._texts:
            return self._texts[path]
        if path not in self._paths:
            return None
        try:
            return (self._root / path).read_bytes()
        except OSError:
            return None


def main() -> None:
    """Serve one parent."""
    say, given = answers(), requests()
    setup = next(given)
    confine(setup["memory_bytes"])
    paths = frozenset(setup["paths"]) - frozenset(setup["hidden"])
    texts = {path: text.encode("latin-1") for path, text in setup["texts"].items()}
    files = _Digested(Announcing(ListedFiles(Path(setup["root"]), paths, texts), say))
    say({"ready": True})
    reads: set[str] = set()
    for _, report in analyze_each(files, _targets(given), _options(setup["options"]), setup["report_on"], reads):
        say({"report": report.to_json(), "reads": files.digests(reads)})


class _Digested:
    """A tree that knows what it gave: the digest of the bytes of each file, and that they were always the same."""

    def __init__(self, tree: Announcing) -> None:
        self._tree = tree
        self._known: dict[str, str] = {}
        self._is_changing = False

    def paths(self) -> Collection[str]:
        """Every path of the tree."""
        return self._tree.paths()

    def read(self, path: str) -> bytes | None:
        """The bytes of one file."""
        content = self._tree.read(path)
        digest = digest_of(content)
        self._is_changing |= self._known.setdefault(path, digest) != digest
        return content

    def digests(self, paths: Collection[str]) -> dict[str, str] | None:
        """The digest of each of these files; None where one of the tree changed while it was read."""
        return None if self._is_changing else {path: self._known[path] for path in sorted(paths) if path in self._known}


def _targets(given: Iterator[Any]) -> Iterator[str]:
    return (document["target"] for document in given)


def _options(document: Mapping[str, Any]) -> Options:
    return Options(
        select=frozenset(document["select"]),
        ignore=frozenset(document["ignore"]),
        min_confidence=Confidence(document["min_confidence"]),
    )


if __name__ == "__main__":
    main()
