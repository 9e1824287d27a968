"""The files of a person's work tree, and where they differ from a commit. Only git's plumbing runs, never a hook."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType

from bot.core.config import Config, find, load_bytes
from bot.core.config_text import Problem
from bot.core.gate import Difference
from bot.errors import InputError
from bot.sources.directory import Directory
from bot.sources.localgit import GitTree, Repository

DEFAULT_BRANCHES = (
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
    "refs/heads/main",
    "refs/heads/master",
)
"""Where the default branch is looked for: what was fetched from the server before what is only here."""
_CHUNK = 1 << 20


class WorkTree:
    """The repository around the working directory, or that directory alone where there is none."""

    def __init__(self, here: Path) -> None:
        here = here.resolve()
        self.repository: Repository | None
        try:
            self.repository = Repository(here)
            self.root = self.repository.top()
        except InputError:
            self.repository, self.root = None, here
        self.cwd = here.relative_to(self.root).as_posix()

    def __enter__(self) -> WorkTree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.repository is not None:
            self.repository.__exit__(kind, error, trace)

    @cached_property
    def files(self) -> Directory:
        """Everything under the root."""
        return Directory(self.root)

    def policy(self, file: Path | None) -> tuple[Config, tuple[Problem, ...], str]:
        """The policy, what is wrong with it, and where it is from: `file`, else the default branch as committed. What
        the work tree says does not count."""
        if file is not None:
            try:
                raw = file.read_bytes()
            except OSError as error:
                raise InputError(f"{file}: cannot be read: {error.strerror}") from None
            config, problems = load_bytes(raw, file.name)
            return config, problems, str(file)
        if self.repository is None:
            return Config(), (), "built-in defaults (no repository, no --policy)"
        for ref in DEFAULT_BRANCHES:
            try:
                sha = self.repository.commit(ref)
            except InputError:
                continue
            config, problems = find(self.repository.tree(sha).read)
            return config, problems, f"{ref.removeprefix('refs/').partition('/')[2]} at {sha[:12]}"
        return Config(), (), "built-in defaults (no default branch here, no --policy)"

    def at(self, sha: str) -> GitTree:
        """The tree of a commit. Raises `InputError` where the commit is not here."""
        if self.repository is None:
            raise InputError("--sha compares with a commit: run it inside the repository")
        try:
            if self.repository.commit(sha) == sha:
                return self.repository.tree(sha)
        except InputError:
            pass
        raise InputError(f"the commit {sha} is not in this repository: git fetch origin {sha}")

    def differences(self, tree: GitTree, paths: Iterable[str]) -> Iterator[Difference]:
        """Which of `paths` are not byte-identical to the commit's."""
        known = self.files.paths()
        for path in sorted(set(paths)):
            wanted = tree.blob_sha(path)
            if path not in known:
                if wanted is not None:
                    yield Difference(path, "missing")
            elif wanted is None:
                yield Difference(path, "untracked")
            elif self._blob_id(path, len(wanted)) != wanted:
                yield Difference(path, "changed")

    def _blob_id(self, path: str, length: int) -> str:
        """The id git would give the file's bytes as they are; no filter and no line-end conversion runs."""
        place = self.root / path
        digest = hashlib.sha256() if length == 64 else hashlib.sha1(usedforsecurity=False)
        try:
            with place.open("rb") as stream:
                digest.update(b"blob %d\0" % place.stat().st_size)
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
        except OSError:
            return ""
        return digest.hexdigest()
