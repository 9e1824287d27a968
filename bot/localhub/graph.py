"""The values behind `schema.graphql`: objects whose attributes and methods are its fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphql import build_schema

from bot.localhub.access import Caller, repository_for
from bot.localhub.clock import now, stamp
from bot.localhub.errors import Refusal
from bot.localhub.limits import rate
from bot.localhub.model import Account, Comment, IssueComment, Pull, Repository, ReviewComment
from bot.localhub.payloads.comments import present_line
from bot.localhub.rules import text_body
from bot.localhub.state import Hub

SCHEMA = build_schema((Path(__file__).parent / "schema.graphql").read_text(encoding="utf-8"))
# GitHub cuts the `text` of a larger blob and says so.
MAX_TEXT_BYTES = 512 * 1024
MAX_PAGE = 100


class Refused(Exception):
    """An entry of `errors` with GitHub's `type`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _not_found(what: str) -> Refused:
    return Refused("NOT_FOUND", f"Could not resolve to {what}.")


def _actor(person: Account) -> dict[str, Any]:
    kind = {"User": "User", "Bot": "Bot", "Organization": "Organization"}[person.type]
    # GraphQL names a bot without the suffix that REST gives it.
    return {"__typename": kind, "id": f"U_{person.id}", "login": person.login.removesuffix("[bot]")}


def _connection(items: Sequence[Any], first: int | None, after: str | None, last: int | None) -> dict[str, Any]:
    if first is None and last is None:
        raise Refused("MISSING_PAGINATION_BOUNDARIES", "You must provide a `first` or `last` value to paginate.")
    size = first if first is not None else last or 0
    if not 0 <= size <= MAX_PAGE:
        raise Refused("EXCESSIVE_PAGINATION", f"Requesting {size} records exceeds the limit of {MAX_PAGE} records.")
    start = int(after or 0) if first is not None else max(0, len(items) - size)
    chosen = items[start : start + size]
    end = start + len(chosen)
    info: dict[str, Any] = {"hasNextPage": end < len(items), "hasPreviousPage": start > 0}
    info |= {"startCursor": str(start) if chosen else None, "endCursor": str(end) if chosen else None}
    return {"nodes": list(chosen), "pageInfo": info, "totalCount": len(items)}


class Thread:
    """A ``PullRequestReviewThread``: a first comment and its replies."""

    def __init__(self, hub: Hub, caller: Caller, first: ReviewComment) -> None:
        self._hub, self._caller, self._first = hub, caller, first
        self.id, self.path = f"PRRT_{first.id}", first.path
        self.originalLine, self.startLine = first.line, first.start_line
        self.isResolved = first.is_resolved
        self.line = present_line(first, first.line)
        self.isOutdated = first.line is not None and self.line is None
        self.viewerCanResolve = caller.allows(["contents:write"])
        self.resolvedBy = _actor(first.resolved_by) if first.resolved_by else None

    def comments(
        self, info: Any, first: int | None = None, after: str | None = None, last: int | None = None, before: Any = None
    ) -> Any:
        """The comments, oldest first."""
        own = [item for item in self._hub.comments_of(self._first.pull) if self._first in (item, item.in_reply_to)]
        return _connection([_comment(item) for item in own], first, after, last)


_CONTENTS = {
    "+1": "THUMBS_UP",
    "-1": "THUMBS_DOWN",
    "laugh": "LAUGH",
    "hooray": "HOORAY",
    "confused": "CONFUSED",
    "heart": "HEART",
    "rocket": "ROCKET",
    "eyes": "EYES",
}


def _comment(found: Comment) -> dict[str, Any]:
    is_review = isinstance(found, ReviewComment)
    body = {
        "__typename": "PullRequestReviewComment" if is_review else "IssueComment",
        "id": f"{'PRRC' if is_review else 'IC'}_{found.id}",
        "databaseId": found.id,
        "body": found.body,
        "author": _actor(found.author),
        "isMinimized": found.minimized_reason is not None,
        "minimizedReason": found.minimized_reason,
        "createdAt": stamp(found.created_at),
        "reactionGroups": [
            {"content": name, "users": {"totalCount": sum(one.content == content for one in found.reactions)}}
            for content, name in _CONTENTS.items()
        ],
    }
    return body | ({"path": found.path} if isinstance(found, ReviewComment) else {})


class PullRequest:
    """A ``PullRequest``."""

    def __init__(self, hub: Hub, caller: Caller, pull: Pull) -> None:
        self._hub, self._caller, self._pull = hub, caller, pull
        self.id, self.databaseId, self.number, self.title = f"PR_{pull.id}", pull.id, pull.number, pull.title
        self.state = "MERGED" if pull.merged_at else pull.state.upper()
        self.isDraft, self.author = pull.is_draft, _actor(pull.author)
        self.headRefOid, self.headRefName = pull.head_sha, pull.head_ref
        self.baseRefOid, self.baseRefName = pull.base_sha, pull.base_ref
        self.headRepository = RepositoryNode(hub, caller, pull.head_repo) if pull.head_repo else None
        self.url = hub.urls.web(f"/{pull.repo.full_name}/pull/{pull.number}")

    def changedFiles(self, info: Any) -> int:  # noqa: N802 - GraphQL's name
        """How many files differ from the merge base."""
        return len(self._hub.files(self._pull))

    def reviewThreads(  # noqa: N802 - GraphQL's name
        self, info: Any, first: int | None = None, after: str | None = None, last: int | None = None, before: Any = None
    ) -> Any:
        """The threads, oldest first."""
        heads = [item for item in self._hub.comments_of(self._pull) if item.in_reply_to is None]
        return _connection([Thread(self._hub, self._caller, item) for item in heads], first, after, last)

    def comments(
        self, info: Any, first: int | None = None, after: str | None = None, last: int | None = None, before: Any = None
    ) -> Any:
        """The conversation, oldest first."""
        if not self._caller.allows(["issues:read", "pull_requests:read"]):
            raise Refused("FORBIDDEN", "Resource not accessible by integration")
        rows = self._hub.conversation_of(self._pull)
        return _connection([_comment(item) for item in rows], first, after, last)


class RepositoryNode:
    """A ``Repository``."""

    def __init__(self, hub: Hub, caller: Caller, repo: Repository) -> None:
        self._hub, self._caller, self._repo = hub, caller, repo
        self.id, self.databaseId = f"R_{repo.id}", repo.id
        self.name, self.nameWithOwner = repo.name, repo.full_name
        self.defaultBranchRef = {"id": f"REF_{repo.id}", "name": repo.default_branch}

    def object(self, info: Any, expression: str | None = None, oid: str | None = None) -> Any:
        """A git object by its id or by an expression such as ``main:train.py``."""
        if not self._caller.allows(["contents:read"]):
            raise Refused("FORBIDDEN", "Resource not accessible by integration")
        sha = oid if oid is not None else self._resolve(expression or "")
        kind = self._repo.git.object_type(sha) if sha else None
        if kind not in {"blob", "tree", "commit"} or sha is None:
            return None
        if kind != "blob":
            return {"__typename": kind.capitalize(), "id": f"G_{sha}", "oid": sha}
        return _blob(sha, self._repo.git.blob(sha) or b"")

    def _resolve(self, expression: str) -> str | None:
        ref, colon, path = expression.partition(":")
        commit = self._repo.git.resolve(ref)
        if commit is None or not colon:
            return commit
        entry = self._repo.git.entry(commit, path)
        return entry.sha if entry else None

    def pullRequest(self, info: Any, number: int) -> Any:  # noqa: N802 - GraphQL's name
        """A pull request by number."""
        if not self._caller.allows(["pull_requests:read"]):
            raise Refused("FORBIDDEN", "Resource not accessible by integration")
        try:
            return PullRequest(self._hub, self._caller, self._hub.pull(self._repo, number))
        except Refusal:
            raise _not_found(f"a PullRequest with the number of {number}") from None


def _blob(sha: str, data: bytes) -> dict[str, Any]:
    is_binary = b"\0" in data[:8000]
    is_truncated = not is_binary and len(data) > MAX_TEXT_BYTES
    text = None if is_binary else data[:MAX_TEXT_BYTES].decode("utf-8", "replace")
    facts = {"__typename": "Blob", "id": f"B_{sha}", "oid": sha, "byteSize": len(data)}
    return facts | {"isBinary": is_binary, "isTruncated": is_truncated, "text": text}


class Query:
    """The root of queries and mutations."""

    def __init__(self, hub: Hub, caller: Caller) -> None:
        self._hub, self._caller = hub, caller

    def repository(self, info: Any, owner: str, name: str, followRenames: bool = True) -> Any:  # noqa: N803
        """A repository by name."""
        renamed = self._hub.renamed(f"{owner}/{name}") if followRenames else None
        try:
            owner, name = renamed.full_name.split("/") if renamed else (owner, name)
            return RepositoryNode(self._hub, self._caller, repository_for(self._hub, self._caller, owner, name))
        except Refusal:
            raise _not_found(f"a Repository with the name '{owner}/{name}'") from None

    def node(self, info: Any, id: str) -> Any:  # noqa: A002 - GraphQL's name
        """A comment by its global id."""
        return _comment(self._comment_of(id))

    def rateLimit(self, info: Any) -> Any:  # noqa: N802 - GraphQL's name
        """What is left."""
        found = rate(self._hub, self._caller)
        return {key: found[key] for key in ("limit", "remaining", "used")} | {"cost": 1, "resetAt": str(found["reset"])}

    def viewer(self, info: Any) -> Any:
        """Who asks. Here alone an app's login has its suffix."""
        return {**_actor(self._caller.account), "login": self._caller.account.login}

    def minimizeComment(self, info: Any, input: dict[str, Any]) -> Any:  # noqa: N802, A002
        """Hide a comment, with a reason."""
        found = self._writable(input["subjectId"])
        found.minimized_reason = str(input["classifier"]).lower()
        return {"minimizedComment": _minimized(found), "clientMutationId": input.get("clientMutationId")}

    def unminimizeComment(self, info: Any, input: dict[str, Any]) -> Any:  # noqa: N802, A002
        """Show it again."""
        found = self._writable(input["subjectId"])
        found.minimized_reason = None
        return {"unminimizedComment": _minimized(found), "clientMutationId": input.get("clientMutationId")}

    def updatePullRequestReviewComment(self, info: Any, input: dict[str, Any]) -> Any:  # noqa: N802, A002
        """Edit a comment on a line: one's own, as an app."""
        found = self._comment_of(str(input["pullRequestReviewCommentId"]))
        if not self._caller.allows(["pull_requests:write"]) or found.author is not self._caller.account:
            raise Refused("FORBIDDEN", "Resource not accessible by integration")
        try:
            found.body = text_body(input["body"], "PullRequestReviewComment")
        except Refusal as error:
            raise Refused("UNPROCESSABLE", error.message) from None
        found.updated_at = now()
        return {"pullRequestReviewComment": _comment(found), "clientMutationId": input.get("clientMutationId")}

    def resolveReviewThread(self, info: Any, input: dict[str, Any]) -> Any:  # noqa: N802, A002
        """Resolve a thread; needs ``contents: write``, although it touches no contents."""
        return self._resolve(input, is_resolved=True)

    def unresolveReviewThread(self, info: Any, input: dict[str, Any]) -> Any:  # noqa: N802, A002
        """Open it again."""
        return self._resolve(input, is_resolved=False)

    def _resolve(self, given: dict[str, Any], *, is_resolved: bool) -> Any:
        first = self._comment_of(str(given["threadId"]).replace("PRRT_", "PRRC_"))
        if not self._caller.allows(["contents:write"]):
            raise Refused("FORBIDDEN", "Resource not accessible by integration")
        assert isinstance(first, ReviewComment)
        first.is_resolved = is_resolved
        first.resolved_by = self._caller.account if is_resolved else None
        thread = Thread(self._hub, self._caller, first)
        return {"thread": thread, "clientMutationId": given.get("clientMutationId")}

    def _writable(self, node_id: str) -> Comment:
        found = self._comment_of(node_id)
        if not self._caller.allows(["issues:write", "pull_requests:write"]):
            raise Refused("FORBIDDEN", "Resource not accessible by integration")
        return found

    def _comment_of(self, node_id: str) -> Comment:
        kind, _, number = node_id.partition("_")
        key = int(number) if number.isdigit() else -1
        found: Comment | None = None
        if kind == "PRRC":
            found = self._hub.rows.review_comments.get(key)
        elif kind == "IC":
            found = self._hub.rows.issue_comments.get(key)
        if found is None or not self._caller.sees(_home(found)):
            raise _not_found(f"a node with the global id of '{node_id}'")
        return found


def _home(found: Comment) -> Repository:
    if isinstance(found, ReviewComment):
        return found.pull.repo
    assert isinstance(found, IssueComment)
    return found.issue.repo


def _minimized(found: Comment) -> dict[str, Any]:
    reason = found.minimized_reason
    return {"__typename": "MinimizedThing", "isMinimized": reason is not None, "minimizedReason": reason}
