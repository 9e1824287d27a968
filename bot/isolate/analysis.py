"""The child of ``preflight check``: takes targets one by one, answers each with a report.

First line in: ``{"root", "paths", "texts", "hidden", "options", "report_on", "is_kept", "memory_bytes"}``; then one
``{"target"}`` a line. Out: ``{"ready"}`` once, ``{"at": path}`` for each file read, ``{"report", "made_from"}`` for
each target: what its report was made from (`Snapshot.made_from`), where it is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from analyzer.api import Journal, Options, analyze_each
from analyzer.findings import Confidence
from bot.isolate.child import Announcing, answers, confine, requests
from bot.isolate.snapshot import Snapshot

MAX_TEXT_BYTES = 32 * 2**20
"""Of a file that is no Python: settings and entry points stand in far smaller ones, and data may be of any size."""
_PYTHON = (".py", ".ipynb")


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
        """The bytes of one file; None where it is not listed, is too large or cannot be read."""
        if path in self._texts:
            return self._texts[path]
        if path not in self._paths:
            return None
        place = self._root / path
        try:
            return place.read_bytes() if path.endswith(_PYTHON) or place.stat().st_size <= MAX_TEXT_BYTES else None
        except OSError:
            return None


def main() -> None:
    """Serve one parent."""
    say, given = answers(), requests()
    setup = next(given)
    confine(setup["memory_bytes"])
    paths = frozenset(setup["paths"]) - frozenset(setup["hidden"])
    texts = {path: text.encode("latin-1") for path, text in setup["texts"].items()}
    files = Snapshot(Announcing(ListedFiles(Path(setup["root"]), paths, texts), say), setup["report_on"])
    say({"ready": True})
    journal = Journal()
    for _, report in analyze_each(files, _targets(given), _options(setup["options"]), setup["report_on"], journal):
        say({"report": report.to_json(), "made_from": files.made_from(journal) if setup["is_kept"] else None})


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
