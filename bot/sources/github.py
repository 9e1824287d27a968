"""A pull request on GitHub as a snapshot and two trees, with no more contents fetched than a review can need.

Read: changed files and what they import, launch configs by their names and the scripts they mention, the base branch's
configuration. Everything else is listed and has no bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from analyzer.api import imported_paths
from bot.core.config import CONFIG_PATHS, find
from bot.core.review_input import MemoryTree, ReviewInput
from bot.github.contents import Contents, Entry, Listing
from bot.github.gateway import Gateway, PullInfo
from bot.sources.base import ChangedFile, PullSnapshot

_log = logging.getLogger("preflight.sources")
MAX_FETCHED_FILES = 600
MAX_FETCHED_BYTES = 32 * 1024 * 1024
_ROUNDS = 6
"""Import hops followed from what changed."""
_LAUNCH_SUFFIXES = frozenset({".slurm", ".sbatch", ".sh", ".bash", ".job", ".pbs", ".lsf"})
_CONFIG_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".toml"})
_MAX_LAUNCH_FILES = 150


class LazyTree:
    """A commit whose files are fetched in batches when asked for, within a budget."""

    def __init__(self, contents: Contents, commit: str) -> None:
        self._contents = contents
        self._commit = commit
        self.listing: Listing = contents.tree(commit)
        self._bytes: dict[str, bytes] = {}
        self._budget_files = MAX_FETCHED_FILES
        self._budget_bytes = MAX_FETCHED_BYTES

    def fetch(self, paths: Iterable[str]) -> list[str]:
        """Fetch what is in the tree and not here yet; returns the paths that are new here."""
        wanted: dict[str, Entry] = {}
        for path in dict.fromkeys(paths):
            entry = self.listing.files.get(path)
            if entry is None or path in self._bytes or self._budget_files <= 0 or entry.size > self._budget_bytes:
                continue
            wanted[path] = entry
            self._budget_files -= 1
            self._budget_bytes -= entry.size
        blobs = self._contents.blobs(wanted.values(), self._commit)
        fresh = {path: blobs[entry.sha] for path, entry in wanted.items() if entry.sha in blobs}
        self._bytes |= fresh
        return list(fresh)

    def fetch_closure(self, paths: Iterable[str]) -> None:
        """`paths` and what they import, round by round, one batch a round."""
        fresh = self.fetch(paths)
        for _ in range(_ROUNDS):
            wanted = {found for path in fresh for found in self._mentioned(path)}
            fresh = self.fetch(sorted(wanted))
            if not fresh:
                return

    def read(self, path: str) -> bytes | None:
        return self._bytes.get(path)

    def frozen(self) -> MemoryTree:
        """All paths, with the bytes of those fetched."""
        files = self.listing.files
        return MemoryTree(
            {path: self._bytes.get(path) for path in files}, {path: entry.sha for path, entry in files.items()}
        )

    def _mentioned(self, path: str) -> Collection[str]:
        content = self._bytes[path]
        if path.endswith(".py"):
            try:
                return imported_paths(content, path, self.listing.files.keys())
            except Exception:  # noqa: BLE001  per file: a hint of what else to fetch must not lose the review
                _log.exception("imports of one file were not followed")
                return ()
        return mentioned_files(content, path, self.listing.files.keys()) if _suffix(path) in _LAUNCH_SUFFIXES else ()


def mentioned_files(content: bytes, path: str, known: Collection[str]) -> list[str]:
    """Scripts and config files of the tree that a launch file names, from the root, its own folder or by a suffix."""
    here = PurePosixPath(path).parent
    words = {
        word.strip("\"'`;,()[]{}=").removeprefix("./").split("=")[-1]
        for word in content.decode("utf-8", "replace").split()
    }
    names = {word for word in words if _suffix(word) in {".py", *_CONFIG_SUFFIXES, *_LAUNCH_SUFFIXES}}
    modules = {word.replace(".", "/") + ".py" for word in words if word.replace(".", "").replace("_", "").isalnum()}
    found = [name for name in known if name in names or name in modules]
    tails = {"/" + PurePosixPath(name).name for name in names if name not in known}
    found += [name for name in known if any(("/" + name).endswith(tail) for tail in tails)]
    found += [str(here / name) for name in names if str(here / name) in known]
    return sorted(set(found))[:50]


def read_pull(
    gateway: Gateway, pull: PullInfo, *, repo_id: int, generation: int, posted: frozenset[str] = frozenset()
) -> ReviewInput:
    """Everything `bot.core.review` needs for `pull`, whose head is pinned by it."""
    if pull.is_draft:  # skipped without a look at its files
        return ReviewInput(snapshot=_snapshot(pull, repo_id), head=MemoryTree({}), base=MemoryTree({}))
    files = gateway.files(pull.number)
    merge_base = gateway.merge_base(pull.base_sha, pull.head_sha)
    head = LazyTree(gateway.contents, pull.head_sha)
    base = LazyTree(gateway.contents, merge_base)
    head.fetch_closure(_starting_points(files, head.listing.files))
    before = {changed.previous_path or changed.path for changed in files}
    base.fetch_closure(
        [*(path for path in before if _readable(path)), *_launch_files(base.listing.files), *_same(head, base)]
    )
    tip = base if pull.base_sha == merge_base else LazyTree(gateway.contents, pull.base_sha)
    tip.fetch(CONFIG_PATHS)
    config, problems = find(tip.read)
    is_cut = pull.num_files > len(files) or head.listing.is_cut or base.listing.is_cut
    return ReviewInput(
        snapshot=_snapshot(pull, repo_id, merge_base, files, is_cut=is_cut),
        head=head.frozen(),
        base=base.frozen(),
        config=config,
        config_problems=problems,
        posted=posted,
        generation=generation,
        web_url=pull.web_url,
    )


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


def _starting_points(files: Iterable[ChangedFile], known: Collection[str]) -> list[str]:
    changed = [file.path for file in files if file.status != "removed" and _readable(file.path)]
    return [*changed, *_launch_files(known)]


def _same(head: LazyTree, base: LazyTree) -> list[str]:
    """What was read at head is read at the base too, so that a difference is one of the code, not of our reading."""
    return [path for path in base.listing.files if head.read(path) is not None]


def _launch_files(known: Collection[str]) -> list[str]:
    return [path for path in sorted(known) if _suffix(path) in _LAUNCH_SUFFIXES][:_MAX_LAUNCH_FILES]


def _readable(path: str) -> bool:
    return _suffix(path) in {".py", ".ipynb", *_LAUNCH_SUFFIXES, *_CONFIG_SUFFIXES}


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()
