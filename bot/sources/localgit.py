"""A local git repository as a pull request: the snapshot and the trees that `bot.core.review` works on.

The repository is hostile like any pull request. Only plumbing runs; the repository's configuration can start nothing
(no hooks, no fsmonitor, no external diff, no textconv, no fetching of missing objects), and ``GIT_*`` of the caller's
environment does not count.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bot.errors import InputError
from bot.sources.base import ChangedFile, PullSnapshot, Status

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "core.quotePath=false",
    "core.useReplaceRefs=false",
    "protocol.allow=never",
    "diff.suppressBlankEmpty=false",
    "diff.renameLimit=2000",
)
_SAFE = (
    *(word for setting in _SETTINGS for word in ("-c", setting)),
    "--no-pager",
    "--literal-pathspecs",
    "--no-optional-locks",
)
_DIFF = ("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
_AS_PATCH = ("-p", "-U3", "--inter-hunk-context=0", "--diff-algorithm=myers")  # any of them would add patches to --raw
_STATUS: Mapping[str, Status] = {
    "A": "added",
    "D": "removed",
    "M": "modified",
    "R": "renamed",
    "C": "copied",
    "T": "changed",
}
_REF = re.compile(r"[^\s\-][^\s\0]{0,250}")
_REGULAR_FILES = frozenset({"100644", "100755"})
MAX_PATCH = 500_000  # bytes; GitHub leaves out the patch of a larger file


class Repository:
    """One repository on disk. Use it as a context manager: it keeps one ``git cat-file`` running."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._batch: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._run("rev-parse", "--git-dir")

    def __enter__(self) -> Repository:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._batch is not None:
            self._batch.communicate()
            self._batch = None

    def _command(self, *arguments: str) -> list[str]:
        return ["git", *_SAFE, "-C", str(self._path), *arguments]

    def _run(self, *arguments: str) -> bytes:
        try:
            done = subprocess.run(self._command(*arguments), capture_output=True, env=_environment(), check=False)
        except FileNotFoundError:
            raise InputError("git is not installed") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise InputError(f"git {arguments[0]}: {said[0]}")
        return done.stdout

    def top(self) -> Path:
        """The root of the work tree. Raises `InputError` for a bare repository."""
        return Path(os.fsdecode(self._run("rev-parse", "--show-toplevel").removesuffix(b"\n")))

    def address(self, remote: str = "origin") -> str:
        """The URL of a remote; empty where there is none."""
        try:
            return self._run("config", "--local", "--get", f"remote.{remote}.url").decode(errors="replace").strip()
        except InputError:
            return ""

    def commit(self, ref: str) -> str:
        """The full id of the commit that `ref` names. Raises `InputError` where there is none."""
        if not _REF.fullmatch(ref):
            raise InputError(f"{ref!r} is no name of a commit")
        try:
            return self._run("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
        except InputError:
            raise InputError(f"there is no commit {ref!r} in {self._path}") from None

    def tree(self, sha: str) -> GitTree:
        """The files of a commit."""
        return GitTree(self, sha)

    def pull(self, base: str, head: str) -> PullSnapshot:
        """The change from the merge base of `base` and `head` to `head`, as a pull request would show it."""
        base_sha, head_sha = self.commit(base), self.commit(head)
        try:
            merge_base = self._run("merge-base", base_sha, head_sha).decode().split()[0]
        except InputError:
            raise InputError(f"{base!r} and {head!r} have no common history") from None
        title = self._run("log", "-1", "--no-show-signature", "--format=%s", head_sha).decode(errors="replace").strip()
        return PullSnapshot(
            repo_id=0,
            full_name=self._path.resolve().name,
            number=0,
            author="",
            title=title,
            is_draft=False,
            is_open=True,
            base_ref=base,
            base_sha=base_sha,
            head_sha=head_sha,
            merge_base_sha=merge_base,
            changed_files=tuple(self._changes(merge_base, head_sha)),
        )

    def _changes(self, old: str, new: str) -> Iterator[ChangedFile]:
        fields = self._run(*_DIFF, "--raw", "-z", old, new).decode(errors="surrogateescape").split("\0")
        position = 0
        while position + 1 < len(fields):
            status = _STATUS.get(fields[position].rsplit(" ", 1)[1][:1], "changed")
            previous = fields[position + 1]
            position += 3 if status in {"renamed", "copied"} else 2
            path = fields[position - 1]
            patch = self._patch(old, new, {previous, path})
            yield ChangedFile(
                path=path, status=status, previous_path=previous if previous != path else None, patch=patch
            )

    def _patch(self, old: str, new: str, paths: Collection[str]) -> str | None:
        """The hunks, as GitHub's files list has them; None for a binary file, a pure rename or a huge file."""
        raw = self._run(*_DIFF, *_AS_PATCH, old, new, "--", *sorted(paths))
        start = raw.find(b"\n@@ ")
        if start < 0 or raw.count(b"\ndiff --git ") or len(raw) > MAX_PATCH:
            return None
        return raw[start + 1 :].decode(errors="replace").removesuffix("\n")

    def entries(self, sha: str) -> Mapping[str, str]:
        """Path -> blob id of the regular files of a commit. Links and submodules are no files of the tree."""
        listed = self._run("ls-tree", "-r", "-z", "--full-tree", sha).decode(errors="surrogateescape")
        found = {}
        for entry in listed.split("\0"):
            meta, _, path = entry.partition("\t")
            mode, _, blob = meta.partition(" blob ")
            if mode in _REGULAR_FILES:
                found[path] = blob
        return found

    def blob(self, sha: str) -> bytes | None:
        """The bytes of a blob; None where the repository does not hold it."""
        with self._lock:
            pipe = self._pipe()
            assert pipe.stdin is not None
            assert pipe.stdout is not None
            pipe.stdin.write(f"{sha}\n".encode())
            pipe.stdin.flush()
            header = pipe.stdout.readline().split()
            if len(header) != 3:
                return None
            content = pipe.stdout.read(int(header[2]))
            pipe.stdout.read(1)
            return content

    def _pipe(self) -> subprocess.Popen[bytes]:
        if self._batch is None:
            self._batch = subprocess.Popen(
                self._command("cat-file", "--batch"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
            )
        return self._batch


class GitTree:
    """The files of one commit, read when asked for."""

    def __init__(self, repository: Repository, sha: str) -> None:
        self._repository = repository
        self._entries = repository.entries(sha)

    def paths(self) -> Collection[str]:
        """Every regular file."""
        return self._entries.keys()

    def read(self, path: str) -> bytes | None:
        """The bytes of one file, as committed (no line end conversion, no filters)."""
        sha = self._entries.get(path)
        return self._repository.blob(sha) if sha else None

    def blob_sha(self, path: str) -> str | None:
        """The id git gives the blob."""
        return self._entries.get(path)


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    ours: Sequence[tuple[str, str]] = (
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", os.devnull),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("LC_ALL", "C"),
    )
    return {**kept, **dict(ours)}
