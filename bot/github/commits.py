"""A commit on top of a known head through the Git data API: blobs, tree, commit, then the branch, never by force."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from bot.errors import InputError, Unavailable
from bot.github.contents import blob_id
from bot.github.errors import Invalid, NotFound
from bot.github.retry import Api, look_then_write


class HeadMoved(Exception):
    """The branch is not where it was any more, or is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """A commit, as much as we read of it."""

    sha: str
    tree: str
    message: str


class Commits:
    """Writes to one repository with a token that may. `Refused` where a rule of the branch forbids it."""

    def __init__(self, api: Api, repo: str) -> None:
        self._api = api
        self._repo = repo

    def get(self, sha: str) -> CommitFacts:
        """One commit."""
        found = self._api.get(f"{self._repo}/git/commits/{sha}")
        return CommitFacts(sha=str(found["sha"]), tree=str(found["tree"]["sha"]), message=str(found["message"]))

    def on_top(self, head: str, files: Mapping[str, bytes], message: str) -> str:
        """A commit whose parent is `head`, with new contents for files that exist there; no branch moves yet.

        GitHub signs it and names our bot user, because nobody else is named as its author.
        """
        tree = self.get(head).tree
        modes = self._modes(tree)
        if absent := sorted(files.keys() - modes.keys()):
            raise InputError(f"GitHub does not list {absent[0]} in this commit: its tree is too large")
        entries = [
            {"path": path, "mode": modes[path], "type": "blob", "sha": self._blob(content)}
            for path, content in files.items()
        ]
        body = {"base_tree": tree, "tree": entries}
        made = self._create("git/trees", body)
        return self._create("git/commits", {"message": message, "tree": made, "parents": [head]})

    def advance(self, branch: str, sha: str) -> None:
        """Move a branch forward to `sha`. Raises `HeadMoved` where that is no fast-forward."""
        ref = quote(f"heads/{branch}")
        body = {"sha": sha, "force": False}

        def look() -> bool | None:
            found = self._api.get(f"{self._repo}/git/ref/{ref}")
            return str(found["object"]["sha"]) == sha or None

        try:
            look_then_write(lambda: bool(self._api.write("PATCH", f"{self._repo}/git/refs/{ref}", body)), look)
        except NotFound:
            raise HeadMoved from None
        except Invalid as error:
            said = error.message.lower()
            if "fast forward" in said or "fast-forward" in said or "does not exist" in said:
                raise HeadMoved from None
            raise

    def _modes(self, tree: str) -> dict[str, str]:
        """An executable file stays one."""
        found = self._api.get(f"{self._repo}/git/trees/{tree}", {"recursive": "1"})
        return {str(entry["path"]): str(entry["mode"]) for entry in found["tree"] if entry["type"] == "blob"}

    def _blob(self, content: bytes) -> str:
        body = {"content": base64.b64encode(content).decode(), "encoding": "base64"}
        sha = self._create("git/blobs", body)
        if sha != blob_id(content):
            raise Unavailable("GitHub did not take the contents of a file as they are")
        return sha

    def _create(self, kind: str, body: Mapping[str, object]) -> str:
        """Objects are named by their content: one that was written twice does no harm."""
        answer = look_then_write(lambda: self._api.write("POST", f"{self._repo}/{kind}", body), lambda: None)
        return str(answer["sha"])
