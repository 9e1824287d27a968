"""Everything a review may look at, as one value: what makes `bot.core.review` a function without I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from analyzer.api import Files
from bot.core.config import Config
from bot.core.config_text import Problem
from bot.core.ledger import Ledger
from bot.sources.base import PullSnapshot, Tree


@dataclass(frozen=True, slots=True)
class Unread:
    """How many files of a tree were left unread although all of it is asked who calls what: its code, its texts."""

    code: int = 0
    texts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewInput:
    """One pull request, ready to be reviewed.

    `base` is the tree of the merge base; `config` comes from the tip of the base branch, over the owner's `defaults`.
    `ledger` is what was said and decided on the pull request before. `skip` names files that killed an analysing
    process before, and why they are left out. `web_url` is where people see the repositories (GHES has its own).
    """

    snapshot: PullSnapshot
    head: Tree
    base: Tree
    config: Config = field(default_factory=Config)
    defaults: Config = field(default_factory=Config)
    config_problems: tuple[Problem, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    skip: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
    web_url: str = "https://github.com"
    unread_head: Unread = Unread()
    unread_base: Unread = Unread()


def git_blob_id(content: bytes) -> str:
    """The id git gives these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class MemoryTree:
    """A tree held in memory. A path may be listed without its bytes: then it exists and cannot be read."""

    def __init__(self, files: Mapping[str, bytes | None], shas: Mapping[str, str] | None = None) -> None:
        self._files = dict(files)
        self._shas = dict(shas or {})

    def paths(self) -> Collection[str]:
        """Every path of the tree."""
        return self._files.keys()

    def read(self, path: str) -> bytes | None:
        """The bytes of one file, where held."""
        return self._files.get(path)

    def blob_sha(self, path: str) -> str | None:
        """The id git gives the blob."""
        content = self._files.get(path)
        if path in self._shas or content is None:
            return self._shas.get(path)
        return git_blob_id(content)


class WithFile:
    """A tree with one more file."""

    def __init__(self, tree: Files, path: str, content: bytes) -> None:
        self._tree = tree
        self._path = path
        self._content = content

    def paths(self) -> Collection[str]:
        """Every path, and the new one."""
        return [*self._tree.paths(), self._path]

    def read(self, path: str) -> bytes | None:
        """The bytes of one file."""
        return self._content if path == self._path else self._tree.read(path)


class WithoutFiles:
    """A tree in which some files do not exist."""

    def __init__(self, tree: Tree, hidden: Collection[str]) -> None:
        self._tree = tree
        self._hidden = frozenset(hidden)

    def paths(self) -> Collection[str]:
        """Every path that is left."""
        return [path for path in self._tree.paths() if path not in self._hidden]

    def read(self, path: str) -> bytes | None:
        """The bytes of one file; None for a hidden one."""
        return None if path in self._hidden else self._tree.read(path)

    def blob_sha(self, path: str) -> str | None:
        """The id git gives the blob; None for a hidden one."""
        return None if path in self._hidden else self._tree.blob_sha(path)
