"""A pull request on GitHub as a snapshot and two trees, with no more contents fetched than a review can need.

Read: changed files and what they import, launch configs by their names and the scripts they mention, the base branch's
configuration; where code changed, all code of the tree up to a size (`CODE_FILES`) and the texts that configure it
(`TEXT_BYTES`), because who calls what is asked of all of it: so a review and `preflight check` agree on how much a
finding matters. Everything else is listed and has no bytes; nothing is concluded from what was not read, and the check
says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Protocol

from analyzer.api import MAX_TEXT_BYTES, files_to_ask, imported_paths, installs, is_code
from bot.core.config import CONFIG_PATHS, Config
from bot.core.ledger import Ledger
from bot.core.review_input import MemoryTree, ReviewInput, Unread
from bot.github.comparisons import rebuild
from bot.github.contents import Contents, Entry, Listing
from bot.github.gateway import Gateway
from bot.github.pulls import PullInfo
from bot.sources.base import ChangedFile, PullSnapshot
from bot.sources.launch_paths import CONFIG_SUFFIXES, named_configs, starting_points
from bot.sources.settled import read_config
from estimator.launches import SUFFIXES
from estimator.resolve.versions import may_pin

_log = logging.getLogger("preflight.sources")
MAX_FETCHED_FILES = 600
_MAX_MENTIONING = 256 * 1024
"""Bytes of a launch or config file in which names of other files are looked for."""
MAX_FETCHED_BYTES = 32 * 1024 * 1024
"""Of each tree, beside its code."""
CODE_FILES, CODE_BYTES = 1500, 16 << 20
"""The code of a tree is read whole, or as imports lead to it. Of 663 public training repositories one is larger; 300
files and more are one request (a tarball) where none is known, and blobs are kept between reviews."""
TEXT_BYTES = 16 << 20
"""Of the texts that configure a tree whose code is read whole, those nearest to its root, and first what installs it:
99 of 100 repositories have 2 MiB."""
_ROUNDS = 6
"""Import hops followed from what changed."""
_LAUNCH_SUFFIXES = frozenset({*SUFFIXES, ".pbs", ".lsf"})
_CODE = (".py", ".ipynb")
_SMALL_FILES, _SMALL_BYTES = 120, 1 << 20
"""A tree with no more to read than this is read at once: one request less for each hop of imports."""


class CommitRef(Protocol):
    """Which commit of which repository, as `bot.queue.records.Record` has it."""

    @property
    def repo_id(self) -> int: ...

    @property
    def full_name(self) -> str: ...

    @property
    def head_sha(self) -> str: ...

    @property
    def generation(self) -> int: ...


class LazyTree:
    """A commit whose files are fetched when asked for, within a budget."""

    def __init__(self, contents: Contents, commit: str) -> None:
        self.commit = commit
        self.listing: Listing = contents.tree(commit)
        self._by_name = by_names(self.listing.files)
        self._bytes: dict[str, bytes] = {}
        self._asked: set[str] = set()
        self._budget_files = MAX_FETCHED_FILES
        self._budget_bytes = MAX_FETCHED_BYTES
        sizes = {path: self.listing.files[path].size for path in files_to_ask(self.listing.files)}
        self._programs = {path: size for path, size in sizes.items() if is_code(path)}
        self._texts = {path: size for path, size in sizes.items() if not is_code(path) and size <= MAX_TEXT_BYTES}
        self._code = frozenset(self._all_code())

    def _all_code(self) -> Iterator[str]:
        if len(self._programs) > CODE_FILES or sum(self._programs.values()) > CODE_BYTES:
            return
        yield from self._programs
        room = TEXT_BYTES
        for path in sorted(self._texts, key=lambda path: (not installs(path), path.count("/"), path)):
            room -= self._texts[path]
            if room < 0:
                return
            yield path

    def code(self) -> list[str]:
        """Everything that may say who calls what, texts that configure it too; nothing of a tree that is too large."""
        return sorted(self._code)

    def unread(self) -> Unread:
        """What may say so and was not read. Where code is missing nothing is asked of texts."""
        code = sum(path not in self._bytes for path in self._programs)
        return Unread(code, 0 if code else sum(path not in self._bytes for path in self._texts))

    def wanted(self, paths: Iterable[str]) -> dict[str, Entry]:
        """Of these, what is in the tree, not here yet and within the budget, which it uses up."""
        wanted: dict[str, Entry] = {}
        for path in dict.fromkeys(paths):
            entry = self.listing.files.get(path)
            if entry is None or path in self._asked:
                continue
            if path not in self._code:
                if self._budget_files <= 0 or entry.size > self._budget_bytes:
                    continue
                self._budget_files -= 1
                self._budget_bytes -= entry.size
            self._asked.add(path)
            wanted[path] = entry
        return wanted

    def take(self, wanted: Mapping[str, Entry], blobs: Mapping[str, bytes]) -> list[str]:
        """Keep what was fetched; the paths that are new here."""
        fresh = {path: blobs[entry.sha] for path, entry in wanted.items() if entry.sha in blobs}
        self._bytes |= fresh
        return list(fresh)

    def read(self, path: str) -> bytes | None:
        return self._bytes.get(path)

    def frozen(self) -> MemoryTree:
        """All paths, with the bytes of those fetched."""
        files = self.listing.files
        return MemoryTree(
            {path: self._bytes.get(path) for path in files}, {path: entry.sha for path, entry in files.items()}
        )

    def small(self) -> list[str]:
        """Everything readable of a small tree; nothing of a larger one."""
        readable = {path: entry for path, entry in self.listing.files.items() if _readable(path)}
        is_small = len(readable) <= _SMALL_FILES and sum(entry.size for entry in readable.values()) <= _SMALL_BYTES
        return list(readable) if is_small else []

    def mentioned(self, path: str) -> Collection[str]:
        """The files of the tree that one of its files imports or names."""
        content = self._bytes[path]
        if path.endswith(_CODE):
            try:
                known = self.listing.files.keys()
                return [*imported_paths(content, path, known), *named_configs(content, path, known)]
            except Exception:  # noqa: BLE001  per file: a hint of what else to fetch must not lose the review
                _log.exception("imports of one file were not followed")
                return ()
        is_followed = _suffix(path) in _LAUNCH_SUFFIXES | CONFIG_SUFFIXES and len(content) <= _MAX_MENTIONING
        return mentioned_files(content, path, self.listing.files.keys(), self._by_name) if is_followed else ()


def fetch_closure(contents: Contents, starts: Mapping[LazyTree, Iterable[str]], *, pairs: Mapping[str, str]) -> None:
    """What the trees start from and what that imports or names, hop by hop; one batch a hop for both trees.

    What is read at the first tree (the head) is read at the others too, so that a difference is one of the code and
    not of our reading; `pairs` are the paths at the others of what was renamed.
    """
    head = next(iter(starts))
    asked: dict[LazyTree, Collection[str]] = {tree: list(paths) for tree, paths in starts.items()}
    for _ in range(_ROUNDS + 1):
        for tree in asked:
            if tree is not head:
                asked[tree] = [*asked[tree], *(pairs.get(path, path) for path in asked[head])]
        wanted = {tree: tree.wanted(paths) for tree, paths in asked.items()}
        entries = [entry for part in wanted.values() for entry in part.values()]
        if not entries:
            return
        blobs = contents.blobs(entries, head.commit)
        for tree, part in wanted.items():
            fresh = tree.take(part, blobs)
            asked[tree] = sorted({found for path in fresh for found in tree.mentioned(path)})


def by_names(known: Iterable[str]) -> dict[str, list[str]]:
    """The paths that end in each name."""
    found: dict[str, list[str]] = {}
    for path in known:
        found.setdefault(path.rpartition("/")[2], []).append(path)
    return found


def mentioned_files(
    content: bytes, path: str, known: Collection[str], by_name: Mapping[str, Sequence[str]]
) -> list[str]:
    """Scripts and config files of the tree that a launch file names, from the root, its own folder or by a suffix."""
    here = PurePosixPath(path).parent
    words = {
        word.strip("\"'`;,()[]{}=").removeprefix("./").split("=")[-1]
        for word in content.decode("utf-8", "replace").split()
    }
    names = {word for word in words if _suffix(word) in {".py", *CONFIG_SUFFIXES, *_LAUNCH_SUFFIXES}}
    modules = {word.replace(".", "/") + ".py" for word in words if word.replace(".", "").replace("_", "").isalnum()}
    found = [name for name in (*names, *modules) if name in known]
    for name in names:
        found += by_name.get(PurePosixPath(name).name, ()) if name not in known else ()
    found += [str(here / name) for name in names if str(here / name) in known]
    return sorted(set(found))[:50]


def read_pull(
    gateway: Gateway,
    pull: PullInfo,
    *,
    repo_id: int,
    generation: int,
    ledger: Ledger | None = None,
    named: Collection[str] = (),
) -> ReviewInput:
    """Everything `bot.core.review` needs for `pull`, whose head is pinned by it.

    `ledger` is the pull request's; `named` may be paths of the head.
    """
    if pull.is_draft and generation > 0:  # skipped without a look at its files; a command looks
        return ReviewInput(snapshot=_snapshot(pull, repo_id), head=MemoryTree({}), base=MemoryTree({}))
    merge_base, files = gateway.changes(pull)
    base = LazyTree(gateway.contents, merge_base)
    compared = gateway.comparisons.between(pull.base_sha, pull.head_sha)
    rebuild(gateway.contents, compared, base.listing, pull.head_sha)
    head = LazyTree(gateway.contents, pull.head_sha)
    before = {changed.previous_path or changed.path for changed in files}
    at_head = [file.path for file in files if file.status != "removed"]
    asks_all = any(path.endswith(_CODE) for path in at_head)
    starts = {
        head: [
            *_starting_points(head, [*at_head, *(word.removeprefix("./") for word in named)]),
            *head.code() * asks_all,
        ],
        base: [*_starting_points(base, before), *CONFIG_PATHS, *base.code() * asks_all],
    }
    moved = {file.path: file.previous_path for file in files if file.previous_path}
    fetch_closure(gateway.contents, starts, pairs=moved)
    settled = read_config(gateway, _config_reader(gateway.contents, base, pull.base_sha))
    config = settled.config
    if config.baseline:
        fetch_closure(gateway.contents, {base: [config.baseline]}, pairs={})
    is_cut = pull.num_files > len(files) or head.listing.is_cut or base.listing.is_cut
    return ReviewInput(
        snapshot=_snapshot(pull, repo_id, merge_base, files, is_cut=is_cut),
        head=head.frozen(),
        base=base.frozen(),
        config=config,
        defaults=settled.defaults,
        config_problems=settled.problems,
        ledger=ledger or Ledger(),
        generation=generation,
        web_url=pull.web_url,
        unread_head=head.unread() if asks_all else Unread(),
        unread_base=base.unread() if asks_all else Unread(),
    )


def read_commit(gateway: Gateway, record: CommitRef, *, web_url: str) -> ReviewInput:
    """Everything `bot.core.branch` needs for a commit of the default branch, whose own configuration holds."""
    tree = LazyTree(gateway.contents, record.head_sha)
    fetch_closure(gateway.contents, {tree: [*_starting_points(tree, ()), *tree.code(), *CONFIG_PATHS]}, pairs={})
    settled = read_config(gateway, tree.read)
    snapshot = PullSnapshot(
        repo_id=record.repo_id,
        full_name=record.full_name,
        number=0,
        author="",
        title="",
        is_draft=False,
        is_open=True,
        base_ref="",
        base_sha=record.head_sha,
        head_sha=record.head_sha,
        merge_base_sha=record.head_sha,
        changed_files=(),
        is_cut=tree.listing.is_cut,
    )
    return ReviewInput(
        snapshot=snapshot,
        head=tree.frozen(),
        base=MemoryTree({}),
        config=settled.config,
        config_problems=settled.problems,
        generation=record.generation,
        web_url=web_url,
    )


def read_files_of(gateway: Gateway, commit: str, default_branch: str) -> tuple[MemoryTree, Config]:
    """The files of a commit that a launch may need, and the policy of the default branch."""
    tree = LazyTree(gateway.contents, commit)
    fetch_closure(gateway.contents, {tree: _starting_points(tree, ())}, pairs={})
    settled = read_config(gateway, gateway.contents.files_at(f"refs/heads/{default_branch}", CONFIG_PATHS).get)
    return tree.frozen(), settled.config


def _snapshot(
    pull: PullInfo, repo_id: int, merge_base: str = "", files: tuple[ChangedFile, ...] = (), *, is_cut: bool = False
) -> PullSnapshot:
    return PullSnapshot(
        repo_id=repo_id,
        full_name=pull.full_name,
        number=pull.number,
        author=pull.author,
        title=pull.title,
        is_draft=pull.is_draft,
        is_open=pull.is_open,
        base_ref=pull.base_ref,
        base_sha=pull.base_sha,
        head_sha=pull.head_sha,
        merge_base_sha=merge_base,
        changed_files=files,
        is_cut=is_cut,
    )


def _config_reader(contents: Contents, base: LazyTree, tip: str) -> Callable[[str], bytes | None]:
    """Reads the configuration at the tip of the base branch, which may have moved on from the merge base."""
    if tip == base.commit:
        return base.read
    return contents.files_at(tip, CONFIG_PATHS).get


def _starting_points(tree: LazyTree, changed: Iterable[str]) -> list[str]:
    """What changed, what may start a run, and what says which versions run."""
    sizes = {path: entry.size for path, entry in tree.listing.files.items()}
    return [*(path for path in changed if _readable(path)), *starting_points(sizes), *tree.small()]


def _readable(path: str) -> bool:
    return _suffix(path) in {*_CODE, *_LAUNCH_SUFFIXES, *CONFIG_SUFFIXES} or may_pin(path)


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()
