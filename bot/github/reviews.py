"""What people read on a pull request: one review, one summary comment, answers, reactions. Only our own are touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.core.plan import ReviewComment
from bot.github.errors import Invalid
from bot.github.retry import Api, look_then_write
from bot.render import limits

_MAX_PROBES = 16
"""Writes spent on finding the entries that GitHub refuses; what is not cleared by then goes into the review's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A comment of ours that is on GitHub."""

    id: int
    body: str


class Conversation:
    """The comments of one repository's pull requests. `login` is our bot user's."""

    def __init__(self, api: Api, repo: str, login: Callable[[], str]) -> None:
        self._api = api
        self._repo = repo
        self._login = login

    def own_review_comments(self, number: int) -> list[Posted]:
        """Every comment on lines that is ours, through all pages: a marker alone could be anybody's."""
        return self._own(f"{self._repo}/pulls/{number}/comments")

    def own_comments(self, number: int) -> list[Posted]:
        """Every comment of the conversation that is ours."""
        return self._own(f"{self._repo}/issues/{number}/comments")

    def upsert(self, number: int, marker: str, text: str, *, is_new: bool = False) -> None:
        """One comment that starts with `marker`: created, edited where it differs, never repeated.

        `is_new` where the caller knows that the conversation is empty.
        """
        body = _marked(marker, text)

        def look() -> Posted | None:
            return next((comment for comment in self.own_comments(number) if comment.body.startswith(marker)), None)

        present = None if is_new else look()
        if present is None:
            look_then_write(lambda: self._comment(number, body), look)
        else:
            self._edit(present, body)

    def has(self, number: int, marker: str) -> bool:
        """Whether a comment of ours starts with `marker`."""
        return any(comment.body.startswith(marker) for comment in self.own_comments(number))

    def write(self, number: int, marker: str, text: str, present: Posted | None) -> None:
        """As `upsert`, where the caller has just read which comment is `present`."""
        body = _marked(marker, text)
        if present is not None:
            self._edit(present, body)
            return
        look_then_write(
            lambda: self._comment(number, body),
            lambda: next((comment for comment in self.own_comments(number) if comment.body.startswith(marker)), None),
        )

    def react(self, comment_id: int, content: str) -> None:
        """A reaction on a conversation comment; GitHub answers 200 where it is there already."""
        path = f"{self._repo}/issues/comments/{comment_id}/reactions"
        look_then_write(lambda: bool(self._api.write("POST", path, {"content": content})), lambda: None)

    def review(self, number: int, sha: str, body: str, comments: Sequence[ReviewComment]) -> int:
        """One review (one notification) with all comments GitHub takes, the others in its text; how many it took.

        A review is all or nothing and the error does not name the entry.
        """
        try:
            self._submit(number, sha, body, comments)
            return len(comments)
        except Invalid as error:
            if "pending review" in error.message.lower():
                self._drop_pending(number)
                return self.review(number, sha, body, comments)
            if not comments:
                raise
        kept, refused = self._sift(number, sha, comments)
        self._submit(number, sha, _with_refused(body, refused), kept)
        return len(kept)

    def _submit(self, number: int, sha: str, body: str, comments: Sequence[ReviewComment]) -> None:
        document = _review(sha, body, comments) | {"event": "COMMENT"}

        def look() -> bool | None:
            if comments:
                there = {_first_line(comment.body) for comment in self.own_review_comments(number)}
                return all(_first_line(comment.body) in there for comment in comments) or None
            reviews = self._api.pages(f"{self._repo}/pulls/{number}/reviews")
            return any(entry["body"] == document["body"] and self._is_own(entry) for entry in reviews) or None

        look_then_write(lambda: bool(self._api.write("POST", f"{self._repo}/pulls/{number}/reviews", document)), look)

    def _sift(
        self, number: int, sha: str, comments: Sequence[ReviewComment]
    ) -> tuple[list[ReviewComment], list[ReviewComment]]:
        """Bisect with pending reviews, which nobody sees and nobody is notified of."""
        kept: list[ReviewComment] = []
        refused: list[ReviewComment] = []
        groups = [list(comments)] if len(comments) == 1 else _halves(comments)
        probes = 0
        while groups:
            group = groups.pop(0)
            probes += 1
            if probes > _MAX_PROBES:
                refused += group
            elif self._would_take(number, sha, group):
                kept += group
            elif len(group) == 1:
                refused += group
            else:
                groups += _halves(group)
        order = {id(comment): place for place, comment in enumerate(comments)}
        return sorted(kept, key=lambda item: order[id(item)]), sorted(refused, key=lambda item: order[id(item)])

    def _would_take(self, number: int, sha: str, comments: Sequence[ReviewComment]) -> bool:
        path = f"{self._repo}/pulls/{number}/reviews"
        try:
            answer = self._api.write("POST", path, _review(sha, "", comments))
        except Invalid:
            return False
        self._api.write("DELETE", f"{path}/{answer['id']}")
        return True

    def _drop_pending(self, number: int) -> None:
        """Our own pending review blocks every other; a person's is not visible to us."""
        path = f"{self._repo}/pulls/{number}/reviews"
        for entry in list(self._api.pages(path)):
            if entry["state"] == "PENDING" and self._is_own(entry):
                self._api.write("DELETE", f"{path}/{entry['id']}")

    def _edit(self, present: Posted, body: str) -> None:
        if present.body != body:
            path = f"{self._repo}/issues/comments/{present.id}"
            look_then_write(lambda: bool(self._api.write("PATCH", path, {"body": body})), lambda: None)

    def _comment(self, number: int, body: str) -> Posted:
        return _posted(self._api.write("POST", f"{self._repo}/issues/{number}/comments", {"body": body}))

    def _own(self, path: str) -> list[Posted]:
        return [_posted(entry) for entry in self._api.pages(path, limit=10_000) if self._is_own(entry)]

    def _is_own(self, entry: Mapping[str, Any]) -> bool:
        user = entry.get("user") or {}
        return user.get("type") == "Bot" and user.get("login") == self._login()


def _marked(marker: str, text: str) -> str:
    """A marker counts at the start only: further down it could be the name of somebody's file."""
    return limits.body(text if text.startswith(marker) else f"{marker}\n{text}")


def _first_line(body: str) -> str:
    """Of a comment of ours: the marker with its fingerprint."""
    return body.partition("\n")[0].strip()


def _posted(entry: Mapping[str, Any]) -> Posted:
    return Posted(id=int(entry["id"]), body=str(entry.get("body") or ""))


def _halves(items: Sequence[ReviewComment]) -> list[list[ReviewComment]]:
    middle = len(items) // 2
    return [list(items[:middle]), list(items[middle:])]


def _with_refused(body: str, refused: Sequence[ReviewComment]) -> str:
    if not refused:
        return body
    texts = [f"`{comment.path}:{comment.line}`\n\n{comment.body}" for comment in refused]
    return "\n\n".join([body, "GitHub takes no comment on these lines:", *texts]).strip()


def _review(sha: str, body: str, comments: Sequence[ReviewComment]) -> dict[str, Any]:
    # Without commit_id GitHub takes the newest commit, which may be one we have not read.
    return {"commit_id": sha, "body": limits.body(body), "comments": [_entry(comment) for comment in comments]}


def _entry(comment: ReviewComment) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": comment.path, "line": comment.line, "side": "RIGHT"}
    if comment.start_line is not None and comment.start_line < comment.line:  # equal is a 422
        entry |= {"start_line": comment.start_line, "start_side": "RIGHT"}
    return entry | {"body": limits.body(comment.body)}
