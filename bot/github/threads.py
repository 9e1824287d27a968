"""Review threads by REST: the comment a thread begins with, answers below it, reactions on its comments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.github.errors import NotFound
from bot.github.retry import Api, look_then_write


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStart:
    """The first comment of a thread. `line` is None once the thread is outdated."""

    id: int
    body: str
    path: str
    line: int | None
    is_own: bool


class Threads:
    """The review threads of one repository's pull requests. `login` is our bot user's."""

    def __init__(self, api: Api, repo: str, login: Callable[[], str]) -> None:
        self._api = api
        self._repo = repo
        self._login = login

    def start(self, comment_id: int) -> ThreadStart | None:
        """The first comment of a thread; None where it was deleted."""
        try:
            found = self._api.get(f"{self._repo}/pulls/comments/{comment_id}")
        except NotFound:
            return None
        line = found.get("line") or found.get("original_line")
        return ThreadStart(
            id=int(found["id"]),
            body=str(found.get("body") or ""),
            path=str(found["path"]),
            line=int(line) if line else None,
            is_own=self._is_own(found),
        )

    def react(self, comment_id: int, content: str) -> None:
        """A reaction; GitHub answers 200 where it is there already."""
        path = f"{self._repo}/pulls/comments/{comment_id}/reactions"
        look_then_write(lambda: bool(self._api.write("POST", path, {"content": content})), lambda: None)

    def upsert(self, number: int, thread: int, marker: str, body: str, *, only_new: bool = False) -> bool:
        """One answer below the thread's first comment that begins with `marker`: created, edited where it differs.

        With `only_new` one that is there stays as it is. False where the thread is gone.
        """

        def look() -> Mapping[str, Any] | None:
            comments = self._api.pages(f"{self._repo}/pulls/{number}/comments", limit=10_000)
            ours = (one for one in comments if self._is_own(one) and str(one.get("body") or "").startswith(marker))
            return next(ours, None)

        def create() -> Mapping[str, Any]:
            path = f"{self._repo}/pulls/{number}/comments/{thread}/replies"
            answer: Mapping[str, Any] = self._api.write("POST", path, {"body": body})
            return answer

        present = look()
        if present is None:
            try:
                look_then_write(create, look)
            except NotFound:
                return False
        elif present["body"] != body and not only_new:
            path = f"{self._repo}/pulls/comments/{present['id']}"
            look_then_write(lambda: bool(self._api.write("PATCH", path, {"body": body})), lambda: None)
        return True

    def _is_own(self, entry: Mapping[str, Any]) -> bool:
        user = entry.get("user") or {}
        return user.get("type") == "Bot" and user.get("login") == self._login()
