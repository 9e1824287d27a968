"""A pull request and what stands on it in one GraphQL query: our threads with what people answered, and our summary.

REST can neither resolve a thread nor tell that one is resolved. Threads are changed in one mutation for many: closing
them needs ``contents: write``, which most installations refuse; without it the comment is edited and minimized.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.core.commands.grammar import PREFIX, command_line
from bot.core.lifecycle import FINGERPRINT, Thread, ThreadChange
from bot.github.errors import NotFound, Refused
from bot.github.pulls import PULL_FIELDS, REPOSITORY_FIELDS, PullInfo, from_graph
from bot.github.retry import Api, look_then_write
from bot.github.reviews import Posted
from bot.render import limits
from bot.render.summary import SUMMARY_MARKER

_log = logging.getLogger("preflight.github")
_MAX_PAGES = 100
_REPLIES = 30
_BATCH = 20
"""Threads changed in one request."""
MAX_CHANGES = 100
"""Threads changed by one review: what is left waits for the next."""
_PAGE = "first: 100, after: "
_PULL = """query($owner: String!, $name: String!, $number: Int!, $threads: String, $comments: String) {
  viewer { login }
  repository(owner: $owner, name: $name) { %s pullRequest(number: $number) { %s } } }"""
_REACTIONS = "reactionGroups { content users { totalCount } }"
_THREADS = f"""reviewThreads({_PAGE}$threads) {{ totalCount pageInfo {{ hasNextPage endCursor }} nodes {{
    id isResolved path line originalLine resolvedBy {{ login }}
    comments(first: {_REPLIES}) {{ totalCount nodes {{
      id body isMinimized author {{ __typename login }} %s }} }} }} }}"""
_COMMENTS = f"""comments({_PAGE}$comments) {{ totalCount pageInfo {{ hasNextPage endCursor }} nodes {{
    databaseId body author {{ __typename login }} }} }}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Our threads, oldest first, and our summary comment where there is one."""

    threads: tuple[Thread, ...] = ()
    summary: Posted | None = None


class Talks:
    """Reads and changes the talk of one repository's pull requests. Ours is what the credential's own account wrote."""

    def __init__(self, api: Api, full_name: str) -> None:
        self._api = api
        self._owner, _, self._name = full_name.partition("/")

    def read(self, number: int, *, with_reactions: bool = False) -> Talk:
        """Everything of ours, through all pages of both lists at once."""
        return self.with_pull(number, with_reactions=with_reactions)[1]

    def with_pull(self, number: int, *, with_reactions: bool = False) -> tuple[PullInfo, Talk]:
        """The pull request and everything of ours on it, as they are at one moment. Raises `NotFound`."""
        pull: PullInfo | None = None
        threads: list[Thread] = []
        summary: Posted | None = None
        left = {"reviewThreads": _THREADS % (_REACTIONS if with_reactions else ""), "comments": _COMMENTS}
        for answer in self._pages(number, left):
            ours, found = _Ours(answer["viewer"]), answer["repository"]["pullRequest"]
            if pull is None:
                pull = from_graph(answer["repository"])
            threads += ours.threads(_nodes(found, "reviewThreads"))
            summary = summary or ours.summary(_nodes(found, "comments"))
            if summary is not None:
                left.pop("comments", None)
        assert pull is not None  # there is a first page, or an error
        return pull, Talk(threads=tuple(threads), summary=summary)

    def _pages(self, number: int, left: dict[str, str]) -> Iterator[dict[str, Any]]:
        """The answers, page by page, while one of the lists has more. Who has enough of one takes it out."""
        cursors = {"reviewThreads": None, "comments": None}
        about = (REPOSITORY_FIELDS, PULL_FIELDS)  # with the first page
        for _ in range(_MAX_PAGES):
            if not left:
                return
            query = _PULL % (about[0], " ".join([about[1], *left.values()]))
            about = ("", "")
            variables = {"owner": self._owner, "name": self._name, "number": number}
            variables |= {"threads": cursors["reviewThreads"], "comments": cursors["comments"]}
            answer = self._api.graphql(query, variables)
            pull = (answer.get("repository") or {}).get("pullRequest")
            if pull is None:
                raise NotFound(404, f"GraphQL does not show pull request {number}")
            # Without its own summary it would write another.
            if answer.get("viewer") is None or any(pull.get(name) is None for name in left):
                raise Refused(200, f"GraphQL does not show what stands on pull request {number}")
            yield answer
            for name in list(left):
                page = pull[name]["pageInfo"]
                cursors[name] = page["endCursor"]
                if not page["hasNextPage"]:
                    del left[name]

    def change(self, changes: Sequence[ThreadChange], resolver: Callable[[], Api | None]) -> int:
        """Make the changes; the number made. `resolver` gives an access with ``contents: write``, if one is granted."""
        wanted = list(changes)[:MAX_CHANGES]
        if not wanted:
            return 0
        api = resolver()
        rest = self._resolve(api, wanted) if api is not None else wanted
        for start in range(0, len(rest), _BATCH):
            batch = rest[start : start + _BATCH]
            steps = [step for change in batch for step in _edit_steps(change)]
            if steps:
                _mutate(self._api, steps)
        return len(wanted)

    def _resolve(self, api: Api, changes: Sequence[ThreadChange]) -> list[ThreadChange]:
        """Resolve and unresolve; what has to be edited all the same."""
        left: list[ThreadChange] = []
        for start in range(0, len(changes), _BATCH):
            batch = changes[start : start + _BATCH]
            done = _mutate(api, [_resolve_step(change) for change in batch])
            for change, is_done in zip(batch, done, strict=True):
                if not is_done or (change.kind == "open" and change.thread.body != change.body):
                    left.append(change)
        return left


class _Ours:
    """What is ours among the nodes of an answer. GraphQL shows the suffix of a bot's login on the viewer alone."""

    def __init__(self, viewer: Mapping[str, Any]) -> None:
        self._login = _plain(viewer)

    def threads(self, nodes: Iterable[Mapping[str, Any]]) -> Iterator[Thread]:
        for node in nodes:
            first, *answers = node["comments"]["nodes"] or [{}]
            body = str(first.get("body") or "").replace("\r\n", "\n")  # a person edited it in the browser
            if not self._wrote(first) or not FINGERPRINT.match(body):
                continue
            is_long = node["comments"]["totalCount"] > _REPLIES
            yield Thread(
                id=str(node["id"]),
                comment_id=str(first["id"]),
                path=str(node["path"]),
                line=int(node.get("line") or node.get("originalLine") or 0),
                body=body,
                is_resolved=bool(node["isResolved"]),
                resolved_by_person=bool(node["isResolved"]) and self._is_persons(node.get("resolvedBy")),
                is_minimized=bool(first.get("isMinimized")),
                has_reply=is_long or any(self._is_reply(answer) for answer in answers),
                up=_reactions(first, "THUMBS_UP"),
                down=_reactions(first, "THUMBS_DOWN"),
            )

    def summary(self, nodes: Iterable[Mapping[str, Any]]) -> Posted | None:
        for node in nodes:
            body = str(node.get("body") or "")
            if body.startswith(SUMMARY_MARKER) and self._wrote(node):
                return Posted(id=int(node["databaseId"]), body=body)
        return None

    def _wrote(self, node: Mapping[str, Any]) -> bool:
        author = node.get("author") or {}
        return author.get("__typename") == "Bot" and _plain(author) == self._login

    def _is_persons(self, actor: Mapping[str, Any] | None) -> bool:
        """GraphQL gives a resolver that is an app as null, or without the suffix of its login."""
        return actor is not None and _plain(actor) != self._login

    def _is_reply(self, node: Mapping[str, Any]) -> bool:
        """What somebody else says; a command to us alone is said to us."""
        body = str(node.get("body") or "").strip()
        # A command alone is one line: nobody's long answer goes through a Markdown parser for it.
        is_command = "\n" not in body and body.startswith(PREFIX) and command_line(body) == body
        return not self._wrote(node) and not is_command


def _plain(actor: Mapping[str, Any]) -> str:
    return str(actor.get("login") or "").removesuffix("[bot]")


def _nodes(pull: Mapping[str, Any], name: str) -> list[Any]:
    """Of a list that this page has."""
    return [node for node in (pull.get(name) or {}).get("nodes", ()) if node]


def _reactions(node: Mapping[str, Any], content: str) -> int:
    """How many people reacted so; 0 where reactions were not asked for."""
    groups = node.get("reactionGroups") or ()
    return sum(int(group["users"]["totalCount"]) for group in groups if group["content"] == content)


_Step = tuple[str, str, dict[str, str]]  # mutation, its input's type, input


def _resolve_step(change: ThreadChange) -> _Step:
    if change.kind == "close":
        return "resolveReviewThread", "ResolveReviewThreadInput", {"threadId": change.thread.id}
    return "unresolveReviewThread", "UnresolveReviewThreadInput", {"threadId": change.thread.id}


def _edit_steps(change: ThreadChange) -> Iterator[_Step]:
    thread = change.thread
    if thread.body != change.body:
        given = {"pullRequestReviewCommentId": thread.comment_id, "body": limits.body(change.body)}
        yield "updatePullRequestReviewComment", "UpdatePullRequestReviewCommentInput", given
    if change.kind == "close" and not thread.is_minimized:
        yield "minimizeComment", "MinimizeCommentInput", {"subjectId": thread.comment_id, "classifier": "RESOLVED"}
    if change.kind == "open" and thread.is_minimized:
        yield "unminimizeComment", "UnminimizeCommentInput", {"subjectId": thread.comment_id}


def _mutate(api: Api, steps: Sequence[_Step]) -> list[bool]:
    """Several mutations in one request, each of which may fail by itself; all may be repeated without harm."""
    names = [f"s{place}" for place in range(len(steps))]
    declared = ", ".join(f"${name}: {kind}!" for name, (_, kind, _) in zip(names, steps, strict=True))
    called = " ".join(
        f"{name}: {mutation}(input: ${name}) {{ clientMutationId }}"
        for name, (mutation, _, _) in zip(names, steps, strict=True)
    )
    given = {name: values | {"clientMutationId": name} for name, (_, _, values) in zip(names, steps, strict=True)}
    query = f"mutation({declared}) {{ {called} }}"
    try:
        answer = look_then_write(lambda: api.graphql(query, given, is_write=True), lambda: None)
    except Refused as error:  # not one of them was done
        _log.warning("GitHub changed no thread: %s", error)
        return [False] * len(steps)
    done = [answer.get(name) is not None for name in names]
    if not all(done):
        _log.info("GitHub did not change %d of %d threads", done.count(False), len(done))
    return done
