"""A tree as one run sees it: the digest of every file that was read, and that it was always the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from analyzer.api import Files, Journal, files_to_ask

_ABOUT_PATHS = frozenset({"file", "single", "shown"})
"""The questions that the list of files answers; the others ask for the texts as well."""


class Snapshot:
    """`Files` that remember the digests of what they gave. `shown` are the files whose findings are wanted."""

    def __init__(self, files: Files, shown: Collection[str]) -> None:
        self._files = files
        self._known: dict[str, str] = {}
        self._texts: str | None = None
        self.shown = frozenset(shown)
        self.is_changing = False

    def paths(self) -> Collection[str]:
        """Every path of the tree."""
        return self._files.paths()

    def read(self, path: str) -> bytes | None:
        """The bytes of one file."""
        content = self._files.read(path)
        digest = digest_of(content)
        self.is_changing |= self._known.setdefault(path, digest) != digest
        return content

    def digest(self, path: str) -> str:
        """The digest of one file."""
        known = self._known.get(path)
        return digest_of(self.read(path)) if known is None else known

    @cached_property
    def listing(self) -> str:
        """The digest of the list of files, and of those that are shown."""
        return digest_of(json.dumps([sorted(self.paths()), sorted(self.shown)]).encode())

    @cached_property
    def _programs(self) -> list[str]:
        return files_to_ask(self.paths())

    def texts(self) -> str:
        """The digest of the list and of the bytes of all files that questions about the tree may read."""
        if self._texts is None:
            self._texts = digest_of(json.dumps([self.listing, *map(self.digest, self._programs)]).encode())
        return self._texts

    def made_from(self, journal: Journal) -> Mapping[str, Any] | None:
        """What a report was made from, for `bot.isolate.cache`; None where the tree changed while it was read."""
        if self.is_changing:
            return None
        asked: list[list[Any]] = [[], []]
        for each in journal.to_json():
            asked[each[0] not in _ABOUT_PATHS].append(each)
        is_read = self._texts is not None or all(path in self._known for path in self._programs)
        return {
            "reads": {path: self.digest(path) for path in sorted(journal.reads)},
            "listing": self.listing,
            "texts": self.texts() if asked[1] and is_read else None,
            "asked": asked,
        }


def digest_of(content: bytes | None) -> str:
    """The digest of a file's bytes, or of its absence."""
    return "absent" if content is None else hashlib.sha256(content).hexdigest()
