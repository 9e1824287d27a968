"""Reports of earlier runs, one file for each target, in the user's cache folder: data only, never in the tree.

A report counts again if everything it was made from is the same: the engine, the options, the list of files (an import
that found nothing may find something in another list) and the bytes of every file that was read for it. What cannot be
read back exactly (damaged, of another format) is no entry. Where there is no safe folder there is no cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from analyzer.api import Options
from analyzer.findings import Report
from bot.core.reports import report_from_json

_FORMAT = "1"
_MAX_ENTRIES = 400  # in one of 256 folders: the oldest go first
Read = Callable[[str], bytes | None]


class ReportCache:
    """The reports on the targets of one tree."""

    def __init__(self, folder: Path, options: Options, paths: Iterable[str], read: Read) -> None:
        self._folder = folder
        self._read = read
        self._digests: dict[str, str] = {}
        chosen = [sorted(options.select), sorted(options.ignore), options.min_confidence.value]
        self._base = _digest(json.dumps([_FORMAT, engine(), chosen, list(paths)]).encode())

    def get(self, target: str) -> Report | None:
        """The report of an earlier run, if it would be the same today."""
        try:
            digest, _, body = self._place(target).read_bytes().partition(b"\n")
            if digest.decode() != _digest(body):
                return None
            entry = json.loads(body)
            if any(self._digest_of(path) != known for path, known in entry["reads"].items()):
                return None
            return report_from_json(entry["report"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, target: str, reads: Mapping[str, str], report: Mapping[str, Any]) -> None:
        """Keep a report. `reads`: the files it was made from, each with the digest of the bytes that were read."""
        body = json.dumps({"reads": dict(reads), "report": report}).encode()
        place = self._place(target)
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=place.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(_digest(body).encode() + b"\n" + body)
            os.replace(name, place)
            _thin_out(place.parent)
        except OSError:  # a full disk, a folder that went away: the next run has more to do
            return

    def _place(self, target: str) -> Path:
        name = _digest(f"{self._base} {target}".encode("utf-8", "surrogateescape"))
        return self._folder / name[:2] / name[2:]

    def _digest_of(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = digest_of(self._read(path))
        return self._digests[path]


def folder_for(root: Path) -> Path | None:
    """Where reports on a tree may be kept: a folder of the user's own, outside the tree; None where there is none."""
    if _has_extensions():
        return None
    given = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(os.path.expanduser("~"))
    usual = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    folder = (Path(given) if os.path.isabs(given) else usual) / "preflight"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place, status = folder.resolve(), folder.stat()
    except (OSError, RuntimeError):
        return None
    is_ours = status.st_uid == os.getuid() and not status.st_mode & 0o022
    return place if is_ours and not place.is_relative_to(root.resolve()) else None


def digest_of(content: bytes | None) -> str:
    """The digest of a file's bytes, or of its absence."""
    return "absent" if content is None else _digest(content)


@cache
def engine() -> str:
    """A digest of all that decides what is found: the analyzer's code and tables, its parsers."""
    import analyzer

    whole = hashlib.sha256(f"{sys.version} {metadata.version('libcst')}".encode())
    folder = Path(analyzer.__file__).parent
    for place in sorted(folder.rglob("*")):
        if place.suffix in {".py", ".toml"}:
            whole.update(place.relative_to(folder).as_posix().encode() + b"\0" + place.read_bytes())
    return whole.hexdigest()


def _has_extensions() -> bool:
    """Rules and tables of others may change without a new version: with them every run is a full one."""
    points = metadata.entry_points()
    return any(points.select(group=group) for group in ("preflight.rules", "preflight.knowledge"))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _thin_out(folder: Path) -> None:
    entries = list(folder.iterdir())
    if len(entries) > _MAX_ENTRIES:
        entries.sort(key=lambda place: place.stat().st_mtime)
        for place in entries[: len(entries) - _MAX_ENTRIES]:
            place.unlink(missing_ok=True)
