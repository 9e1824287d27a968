"""What a review looks at: one frozen snapshot of a pull request. `github.py` and `localgit.py` make the real ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Protocol

Status = Literal["added", "removed", "modified", "renamed", "copied", "changed", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """One file of a pull request, as ``GET /pulls/{n}/files`` lists it.

    `patch` is None for binary files, pure renames and files too large: no line of those can carry a comment.
    """

    path: str
    status: Status
    previous_path: str | None = None
    patch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSnapshot:
    """A pull request at one moment. `number` is 0 for a local review."""

    repo_id: int
    full_name: str
    number: int
    author: str
    title: str
    is_draft: bool
    is_open: bool
    base_ref: str
    base_sha: str
    head_sha: str
    merge_base_sha: str
    changed_files: tuple[ChangedFile, ...]
    is_cut: bool = False  # GitHub lists at most 3,000 files; True when there are more


class Tree(Protocol):
    """The files of one commit: `analyzer.api.Files` and the blob SHA of a path."""

    def paths(self) -> Collection[str]: ...

    def read(self, path: str) -> bytes | None: ...

    def blob_sha(self, path: str) -> str | None: ...
