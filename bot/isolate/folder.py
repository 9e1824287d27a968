"""Entries of `bot.isolate.cache` as files in a folder of the user's own, outside the tree under analysis."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_MAX_ENTRIES = 400  # in one of 256 folders: those that were not used for longest go first
_MAX_BYTES = 1 << 20  # likewise: 256 MiB in all
_DAY = 86_400


class Folder:
    """A `Store`. Any number of processes may use it at once: an entry is there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        place = self._place(key)
        try:
            entry = place.read_bytes()
            if place.stat().st_mtime < time.time() - _DAY:
                os.utime(place)
        except OSError:
            return None
        return entry

    def put(self, key: str, entry: bytes) -> None:
        """See `Store`."""
        place = self._place(key)
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=place.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(entry)
                os.replace(name, place)
            except OSError:
                os.unlink(name)
                raise
            _thin_out(place.parent)
        except OSError:  # a full disk, a folder that went away: the next run has more to do
            return

    def _place(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]


def folder_for(root: Path) -> Path | None:
    """Where reports on a tree may be kept: the user's cache folder, or where that lies in the tree (it is the home
    folder, say) one in the folder for temporary files. None where there is none that is ours alone and outside."""
    tree = root.resolve()
    for folder, is_shared in _folders():
        try:
            if folder.resolve().is_relative_to(tree):
                continue
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            place, status = folder.resolve(), folder.lstat() if is_shared else folder.stat()
        except (OSError, RuntimeError):
            continue
        is_ours = status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)
        if is_ours and not status.st_mode & (0o077 if is_shared else 0o022) and not place.is_relative_to(tree):
            return place
    return None


def _folders() -> Iterator[tuple[Path, bool]]:
    """Folders, and whether others can put something else (a link) in their place."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(os.path.expanduser("~"))
    usual = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    yield (Path(given) if os.path.isabs(given) else usual) / "preflight", False
    for around in dict.fromkeys([tempfile.gettempdir(), "/var/tmp"]):  # noqa: S108  the folder in it must be ours alone
        yield Path(around) / f"preflight-{os.getuid()}", True


def _thin_out(folder: Path) -> None:
    entries = [(status.st_mtime, status.st_size, entry.path) for entry in os.scandir(folder) if (status := _of(entry))]
    num_bytes = sum(size for _, size, _ in entries)
    entries.sort(reverse=True)
    while entries and (len(entries) > _MAX_ENTRIES or num_bytes > _MAX_BYTES):
        _, size, path = entries.pop()
        num_bytes -= size
        Path(path).unlink(missing_ok=True)


def _of(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:  # another process took it away
        return None
