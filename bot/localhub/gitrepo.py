"""Reading (and, for pushes and suggestions, writing) one bare git repository through the git program."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SHA = re.compile(r"[0-9a-f]{40}")
# No configuration of the machine or of the repository may change what a diff looks like.
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C.UTF-8",
}
_DIFF = ("--no-color", "--no-ext-diff", "--no-textconv", "--full-index", "-M", "--diff-algorithm=myers", "-U3")


class GitError(Exception):
    """git said no; the message is what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """One line of ``git ls-tree``. `size` is in bytes, None for anything but a blob."""

    mode: str
    type: str
    sha: str
    size: int | None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """What the API tells about a commit."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author_name: str
    author_email: str
    author_date: str
    committer_name: str
    committer_email: str
    committer_date: str
    message: str


class GitRepo:
    """A bare repository at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def clone(cls, source: str, path: Path) -> GitRepo:
        """A bare copy of `source` (a path), which is only read."""
        GitRepo(path.parent)._git("clone", "--quiet", "--bare", "--no-hardlinks", source, str(path), here=False)
        return cls(path)

    def _git(
        self,
        *args: str,
        stdin: bytes | None = None,
        environment: dict[str, str] | None = None,
        here: bool = True,
    ) -> bytes:
        command = ["git", *(["--git-dir", str(self.path)] if here else []), *args]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        done = subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            env=kept | _ENVIRONMENT | (environment or {}),
            check=False,
        )
        if done.returncode != 0:
            raise GitError(done.stderr.decode("utf-8", "replace").strip() or f"git {args[0]} failed")
        return done.stdout

    def text(self, *args: str) -> str:
        """Output of a git command, as text without the last newline."""
        return self._git(*args).decode("utf-8", "replace").rstrip("\n")

    # --- names -------------------------------------------------------------------------------------------------

    def resolve(self, ref: str) -> str | None:
        """The commit that a full SHA, a branch or a tag names; None when there is none."""
        candidates = [ref] if _SHA.fullmatch(ref) else [f"refs/heads/{ref}", f"refs/tags/{ref}", ref]
        for candidate in candidates:
            if candidate.startswith("-"):
                return None
            try:
                return self.text("rev-parse", "--verify", "--quiet", "--end-of-options", candidate + "^{commit}")
            except GitError:
                continue
        return None

    def branches(self) -> dict[str, str]:
        """Branch name to the SHA of its tip."""
        lines = self.text("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads").splitlines()
        return {line[41:].removeprefix("refs/heads/"): line[:40] for line in lines}

    def set_ref(self, name: str, sha: str | None) -> None:
        """Point a full reference name somewhere, or delete it."""
        self._git(*(["update-ref", name, sha] if sha else ["update-ref", "-d", name]))

    def fetch(self, source: str, ref: str, into: str) -> str:
        """Copy `ref` of the repository at `source` to the reference `into` (forced), and return its SHA."""
        self._git("fetch", "--quiet", "--no-tags", source, f"+{ref}:{into}")
        return self.text("rev-parse", into)

    # --- history -----------------------------------------------------------------------------------------------

    def merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor, if there is one."""
        try:
            return self.text("merge-base", one, other)
        except GitError:
            return None

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` contains `old`."""
        return self.merge_base(old, new) == old

    def rev_list(self, *spec: str) -> list[str]:
        """Commits of a range, oldest first."""
        return self.text("rev-list", "--reverse", "--topo-order", *spec).split()

    def commit(self, sha: str) -> CommitInfo:
        """One commit."""
        form = "%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"
        parts = self.text("log", "-1", f"--format={form}", sha).split("\0")
        return CommitInfo(
            sha=parts[0],
            tree=parts[1],
            parents=tuple(parts[2].split()),
            author_name=parts[3],
            author_email=parts[4],
            author_date=parts[5],
            committer_name=parts[6],
            committer_email=parts[7],
            committer_date=parts[8],
            message=parts[9].rstrip("\n"),
        )

    # --- objects -----------------------------------------------------------------------------------------------

    def object_type(self, sha: str) -> str | None:
        """commit, tree, blob or tag; None when it is not here."""
        try:
            return self.text("cat-file", "-t", sha)
        except GitError:
            return None

    def blob(self, sha: str) -> bytes | None:
        """The bytes of a blob."""
        return self._git("cat-file", "blob", sha) if self.object_type(sha) == "blob" else None

    def tree(self, treeish: str, path: str = "", *, recursive: bool = False) -> list[TreeEntry]:
        """The entries of a tree, or of a folder in it; with `recursive` folders are listed too, as GitHub does."""
        options = ["-r", "-t"] if recursive else []
        target = f"{treeish}:{path}" if path else treeish
        raw = self._git("ls-tree", "-z", "-l", *options, "--end-of-options", target)
        entries = []
        for line in raw.decode("utf-8", "replace").split("\0")[:-1]:
            facts, name = line.split("\t", 1)
            mode, kind, sha, size = facts.split()
            entries.append(TreeEntry(mode=mode, type=kind, sha=sha, size=None if size == "-" else int(size), path=name))
        return entries

    def entry(self, treeish: str, path: str) -> TreeEntry | None:
        """The entry of one path."""
        folder, _, name = path.rpartition("/")
        try:
            found = [entry for entry in self.tree(treeish, folder) if entry.path == name]
        except GitError:
            return None
        return found[0] if found else None

    def diff_raw(self, old: str, new: str) -> bytes:
        """``git diff --raw -z`` with renames."""
        return self._git("diff", "--raw", "-z", "--abbrev=40", *_DIFF[:-1], old, new)

    def diff_numstat(self, old: str, new: str) -> bytes:
        """``git diff --numstat -z`` with renames."""
        return self._git("diff", "--numstat", "-z", *_DIFF[:-1], old, new)

    def diff_patch(self, old: str, new: str) -> bytes:
        """The patch of everything, as git prints it."""
        return self._git("diff", *_DIFF, old, new)

    def archive(self, sha: str, prefix: str) -> bytes:
        """A gzipped tar of a commit."""
        return self._git("archive", "--format=tar.gz", f"--prefix={prefix}/", sha)

    # --- writing -----------------------------------------------------------------------------------------------

    def write_blob(self, content: bytes) -> str:
        """A blob that nothing holds yet."""
        return self._git("hash-object", "-w", "--stdin", stdin=content).decode().strip()

    def write_tree(self, base: str | None, entries: Iterable[tuple[str, str | None, str]], index: Path) -> str:
        """A tree like `base` with (mode, object, path) put in; without an object the path is taken out."""
        environment = {"GIT_INDEX_FILE": str(index)}
        if base:
            self._git("read-tree", f"{base}^{{tree}}", environment=environment)
        for mode, sha, path in entries:
            if sha is None:
                self._git("update-index", "--force-remove", "--", path, environment=environment)
            else:
                self._git("update-index", "--add", "--cacheinfo", f"{mode},{sha},{path}", environment=environment)
        tree = self._git("write-tree", environment=environment).decode().strip()
        index.unlink(missing_ok=True)
        return tree

    def commit_tree(self, tree: str, parents: Iterable[str], message: str, author: str, date: str) -> str:
        """A commit of a tree; no reference moves."""
        who: dict[str, str] = {}
        for role in ("AUTHOR", "COMMITTER"):
            who |= {f"GIT_{role}_NAME": author, f"GIT_{role}_EMAIL": f"{author}@localhub.invalid"}
            who[f"GIT_{role}_DATE"] = date
        on = [word for parent in parents for word in ("-p", parent)]
        return self._git("commit-tree", tree, *on, "-m", message, environment=who).decode().strip()

    def write_commit(
        self, parent: str, files: dict[str, bytes], message: str, author: str, date: str, index: Path
    ) -> str:
        """A commit on `parent` in which `files` have new contents; modes are kept. No reference moves."""
        environment = {"GIT_INDEX_FILE": str(index)}
        self._git("read-tree", parent, environment=environment)
        for path, content in files.items():
            entry = self.entry(parent, path)
            blob = self._git("hash-object", "-w", "--stdin", stdin=content).decode().strip()
            info = f"{entry.mode if entry else '100644'},{blob},{path}"
            self._git("update-index", "--add", "--cacheinfo", info, environment=environment)
        tree = self._git("write-tree", environment=environment).decode().strip()
        index.unlink(missing_ok=True)
        return self.commit_tree(tree, [parent], message, author, date)
