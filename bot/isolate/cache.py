"""Reports of earlier runs, an entry for each target: data only, never in the tree.

A report counts again if everything it was made from is the same: the engine, the options, the bytes of every file that
was read for it, and the answer to every question that was asked of the tree as a whole (`analyzer.journal`). Where the
tree is the same as a whole, no question is asked again. What cannot be read back exactly (damaged, of another format)
is no entry; where there is no place for entries there is no cache.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from analyzer.api import Answers, Options, answers
from analyzer.findings import Report
from bot.core.reports import report_from_json
from bot.isolate.snapshot import Snapshot, digest_of

_FORMAT = "2"
MAX_ENTRY_BYTES = 1 << 20


class Store(Protocol):
    """Where entries are kept. It may forget any of them, and fails in silence: the next run has more to do."""

    def get(self, key: str) -> bytes | None:
        """An entry; its bytes may be anything."""

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry."""


class ReportCache:
    """The reports on the targets of one tree."""

    def __init__(self, store: Store, options: Options, tree: Snapshot) -> None:
        self._store = store
        self._tree = tree
        self._options = options
        self._answers: Answers | None = None
        chosen = [sorted(options.select), sorted(options.ignore), options.min_confidence.value, options.has_all_texts]
        self._base = digest_of(json.dumps([_FORMAT, engine(), chosen]).encode())

    def get(self, target: str) -> Report | None:
        """The report of an earlier run, if it would be the same today."""
        entry = self._store.get(self._key(target, self._tree.digest(target)))
        try:
            digest, made, asked, report = (entry or b"").split(b"\n")
            if digest.decode() != digest_of(b"\n".join((made, asked, report))):
                return None
            return report_from_json(json.loads(report)) if self._holds(json.loads(made), asked) else None
        except Exception:  # noqa: BLE001  per entry: who wrote it may have been broken into, and an odd one is none
            return None

    def put(self, target: str, made: Mapping[str, Any], report: Mapping[str, Any]) -> None:
        """Keep a report, with what it was made from (`Snapshot.made_from`)."""
        head = {name: made[name] for name in ("reads", "listing", "texts")}
        body = b"\n".join(json.dumps(part).encode() for part in (head, made["asked"], report))
        if len(body) <= MAX_ENTRY_BYTES:
            self._store.put(self._key(target, made["reads"][target]), digest_of(body).encode() + b"\n" + body)

    def _holds(self, made: Mapping[str, Any], asked: bytes) -> bool:
        tree = self._tree
        if any(tree.digest(path) != known for path, known in made["reads"].items()):
            return False
        if made["texts"] is not None and made["texts"] == tree.texts():
            return True
        of_paths, of_texts = json.loads(asked)
        if made["listing"] == tree.listing:
            of_paths = ()
        return self._same(of_paths) and self._same(of_texts)

    def _same(self, asked: Sequence[Sequence[Any]]) -> bool:
        if not asked:
            return True
        if self._answers is None:
            self._answers = answers(self._tree, self._tree.shown, self._options)
        return self._answers.hold(asked)

    def _key(self, target: str, digest: str) -> str:
        return digest_of(json.dumps([self._base, target, digest]).encode())


def is_possible() -> bool:
    """Whether reports may be kept at all. Rules and tables of others may change without a new version: with them every
    run is a full one."""
    points = metadata.entry_points()
    return not any(points.select(group=group) for group in ("preflight.rules", "preflight.knowledge"))


@cache
def engine() -> str:
    """A digest of all that decides what is found: the analyzer's code and tables, its parsers."""
    import analyzer

    whole = sha256(f"{sys.version} {metadata.version('libcst')}".encode())
    folder = Path(analyzer.__file__).parent
    for place in sorted(folder.rglob("*")):
        if place.suffix in {".py", ".toml"}:
            whole.update(place.relative_to(folder).as_posix().encode() + b"\0" + place.read_bytes())
    return whole.hexdigest()
