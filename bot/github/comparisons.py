"""Base and head of a pull request compared: merge base and changed files in one request, kept: commits never change.

From the old contents and the patches the new ones follow without a request, and with them the head's listing: a push to
a pull request that was reviewed before costs one request for what it reads.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast, get_args

from bot.core.patching import apply_patch
from bot.github.contents import Contents, Entry, Listing, blob_id
from bot.github.retry import Api
from bot.sources.base import ChangedFile, Status
from bot.store import TREE_TTL, Client, Keys

MAX_FILES = 300
"""GitHub lists no more files of a comparison."""
_MAX_KEPT = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`shas` are the blob ids at the head, one for each of `files` ("" where GitHub gives none)."""

    merge_base: str
    files: tuple[ChangedFile, ...]
    shas: tuple[str, ...]

    def has_all(self, num_files: int) -> bool:
        """Whether these are all of a pull request's `num_files`."""
        return len(self.files) == num_files < MAX_FILES


class Comparisons:
    """Of one repository."""

    def __init__(self, api: Api, client: Client, keys: Keys, *, repo_id: int, repo: str) -> None:
        self._api, self._client, self._keys = api, client, keys
        self._repo_id, self._repo = repo_id, repo
        self._last = ("", "", Comparison(merge_base="", files=(), shas=()))

    def between(self, base: str, head: str) -> Comparison:
        """A fork's head resolves through the base repository."""
        if (base, head) != self._last[:2]:
            self._last = (base, head, self._between(base, head))
        return self._last[2]

    def _between(self, base: str, head: str) -> Comparison:
        key = self._keys.comparison(self._repo_id, base, head)
        cached: Any = self._client.get(key)
        if cached:
            document = json.loads(zlib.decompress(cached))
            files = tuple(ChangedFile(**entry) for entry in document["files"])
            return Comparison(merge_base=document["merge_base"], files=files, shas=tuple(document["shas"]))
        answer = self._api.get(f"{self._repo}/compare/{base}...{head}", {"per_page": 1})
        entries = answer.get("files") or []
        found = Comparison(
            merge_base=str(answer["merge_base_commit"]["sha"]),
            files=tuple(changed_file(entry) for entry in entries),
            shas=tuple(str(entry.get("sha") or "") for entry in entries),
        )
        kept = zlib.compress(json.dumps(asdict(found)).encode())
        if len(kept) <= _MAX_KEPT:
            self._client.set(key, kept, ex=TREE_TTL)
        return found


def rebuild(contents: Contents, found: Comparison, base: Listing, head: str) -> None:
    """Put what follows from `found` into the caches of `contents`: changed blobs; the listing where all are known."""
    if len(found.files) >= MAX_FILES:
        return
    new: dict[str, bytes] = {}
    is_whole = not base.is_cut
    old = contents.kept(
        entry.sha for file in found.files if (entry := base.files.get(file.previous_path or file.path)) is not None
    )
    listing = dict(base.files)
    for file, sha in zip(found.files, found.shas, strict=True):
        content = _content(file, sha, base, old)
        if content is not None:
            new[sha] = content
        is_whole = is_whole and _move(listing, file, sha, content, base)
    contents.keep(new)
    if is_whole:
        contents.keep_tree(head, Listing(listing, is_cut=False))


def _content(file: ChangedFile, sha: str, base: Listing, old: Mapping[str, bytes]) -> bytes | None:
    """The bytes at the head, proven by their blob id."""
    entry = base.files.get(file.previous_path or file.path)
    before = old.get(entry.sha) if entry is not None else b"" if file.status == "added" else None
    if before is None or file.status == "removed":
        return None
    after = before if file.patch is None else apply_patch(before, file.patch)
    return after if after is not None and blob_id(after) == sha else None


def _move(listing: dict[str, Entry], file: ChangedFile, sha: str, content: bytes | None, base: Listing) -> bool:
    """Take one change into the head's listing. False where it may be no plain file, or its size is not known."""
    if file.status in {"removed", "renamed"}:
        gone = file.previous_path or file.path
        if gone not in base.files:
            return False  # a link or a submodule: those are in no listing
        listing.pop(gone, None)
        if file.status == "removed":
            return True
    elif file.status == "modified":
        if file.path not in base.files:
            return False
    elif file.status != "added":
        return False
    # The blob of a link is its target: one line without an end.
    if content is None or (file.status == "added" and content and not content.endswith(b"\n")):
        return False
    listing[file.path] = Entry(sha, len(content))
    return True


def changed_file(entry: Mapping[str, Any]) -> ChangedFile:
    """One entry of a list of changed files."""
    status = entry["status"] if entry["status"] in get_args(Status) else "changed"
    return ChangedFile(
        path=str(entry["filename"]),
        status=cast(Status, status),
        previous_path=entry.get("previous_filename"),
        patch=entry.get("patch"),
    )
