"""What stands on a pull request, read in pages; threads changed in batches, and edited where GitHub refuses that."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import responses

from bot.core.ledger import Ignored, Ledger
from bot.core.lifecycle import Thread, ThreadChange
from bot.github.errors import NotFound, Refused
from bot.github.gateway import Gateway
from bot.queue.memory import Memory, write_summary
from bot.render.summary import SUMMARY_MARKER
from tests.bot.github.conftest import API

BOT, DANA = {"__typename": "Bot", "login": "preflight"}, {"__typename": "User", "login": "dana"}
BODY = "<!-- preflight:fingerprint=0123456789abcdef -->\n\n**PF101 graph-retention**"


def said(body: str, author: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"id": "C", "databaseId": 7, "body": body, "isMinimized": False, "author": author, **more}


def thread(name: str, *comments: dict[str, Any], num: int | None = None, **more: Any) -> dict[str, Any]:
    shown = {"totalCount": num or len(comments), "nodes": list(comments)}
    plain = {"id": name, "isResolved": False, "path": "t.py", "line": None, "originalLine": 4, "resolvedBy": None}
    return plain | {"comments": shown} | more


PULL = {
    "number": 1,
    "title": "Train",
    "state": "OPEN",
    "isDraft": False,
    "url": "https://github.test/acme/training/pull/1",
    "changedFiles": 3,
    "author": {"__typename": "Bot", "login": "dependabot"},
    "baseRefName": "main",
    "baseRefOid": "b" * 40,
    "headRefName": "feature",
    "headRefOid": "a" * 40,
    "headRepository": None,
}


def shown(pull: dict[str, Any] | None) -> dict[str, Any]:
    about = {"nameWithOwner": "acme/training", "defaultBranchRef": {"name": "main"}}
    return {"data": {"viewer": {"login": "preflight[bot]"}, "repository": {**about, "pullRequest": pull}}}


def answer_with(github: responses.RequestsMock, answer: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []

    def graphql(request: Any) -> tuple[int, dict[str, str], str]:
        asked.append(json.loads(request.body))
        return 200, {}, json.dumps(answer(asked[-1]))

    github.add_callback(responses.POST, f"{API}/graphql", graphql)
    return asked


def pages(*found: dict[str, list[Any]]) -> Callable[[dict[str, Any]], Any]:
    """One page after the other; the cursor is the number of the next."""

    def answer(asked: dict[str, Any]) -> Any:
        pull: dict[str, Any] = dict(PULL) if "headRefOid" in asked["query"] else {}
        for name, variable in (("reviewThreads", "threads"), ("comments", "comments")):
            if f"{name}(" in asked["query"]:
                at = int(asked["variables"][variable] or 0)
                nodes = [page.get(name, []) for page in found]
                more = any(nodes[at + 1 :])
                info = {"hasNextPage": more, "endCursor": str(at + 1)}
                pull[name] = {"totalCount": sum(map(len, nodes)), "nodes": nodes[at], "pageInfo": info}
        return shown(pull)

    return answer


def test_threads_and_summary_are_found_on_any_page_and_only_ours(
    gateway: Gateway, github: responses.RequestsMock
) -> None:
    forged = said(f"{SUMMARY_MARKER}\nnot ours", DANA)
    asked = answer_with(
        github,
        pages(
            {"comments": [forged], "reviewThreads": [thread("T1", said(BODY, DANA)), thread("T2", said(BODY, BOT))]},
            {"comments": [said(f"{SUMMARY_MARKER}\nours", BOT, databaseId=9)]},
            {"comments": [said("later", DANA)]},
        ),
    )
    pull, talk = gateway.talks.with_pull(1)
    assert (pull.author, pull.head_sha, pull.num_comments, pull.is_open) == ("dependabot[bot]", "a" * 40, 3, True)
    assert (pull.web_url, pull.head_full_name, pull.default_branch) == ("https://github.test", None, "main")
    assert [(one.id, one.line) for one in talk.threads] == [("T2", 4)]
    assert talk.summary is not None
    assert talk.summary.id == 9
    assert len(asked) == 2  # what comes after the summary is nobody's question


@pytest.mark.parametrize(
    ("found", "has_reply"),
    [
        (thread("T", said(BODY, BOT)), False),
        (thread("T", said(BODY, BOT), said("We clear them in a hook.", DANA)), True),
        (thread("T", said(BODY, BOT), said("/preflight dismiss PF101 fine", DANA), said("done", BOT)), False),
        (thread("T", said(BODY, BOT), said("/preflight dismiss PF101 fine\nbecause", DANA)), True),
        (thread("T", said(BODY, BOT), num=31), True),
    ],
)
def test_a_command_is_no_reply_and_a_long_thread_is_a_discussion(
    gateway: Gateway, github: responses.RequestsMock, found: dict[str, Any], has_reply: bool
) -> None:
    answer_with(github, pages({"reviewThreads": [found], "comments": []}))
    assert [one.has_reply for one in gateway.talks.read(1).threads] == [has_reply]


@pytest.mark.parametrize(("resolver", "is_persons"), [(None, False), ({"login": "preflight"}, False), (DANA, True)])
def test_who_resolved_a_thread_is_known(
    gateway: Gateway, github: responses.RequestsMock, resolver: dict[str, str] | None, is_persons: bool
) -> None:
    node = thread("T", said(BODY, BOT), isResolved=True, resolvedBy=resolver)
    answer_with(github, pages({"reviewThreads": [node], "comments": []}))
    assert [one.resolved_by_person for one in gateway.talks.read(1).threads] == [is_persons]


def test_a_conversation_that_is_not_shown_is_an_error_and_not_an_empty_one(
    gateway: Gateway, github: responses.RequestsMock
) -> None:
    empty = {"totalCount": 0, "nodes": [], "pageInfo": {"hasNextPage": False, "endCursor": None}}
    answer_with(github, lambda asked: shown(PULL | {"reviewThreads": empty, "comments": None}))
    with pytest.raises(Refused, match="does not show"):
        gateway.talks.read(1)


def test_a_pull_request_that_is_not_there_may_not_be_there_yet(
    gateway: Gateway, github: responses.RequestsMock
) -> None:
    answer_with(github, lambda asked: shown(None) | {"errors": [{"type": "NOT_FOUND", "message": "no"}]})
    with pytest.raises(NotFound):
        gateway.talks.with_pull(1)


def test_many_threads_are_changed_in_few_requests_and_refused_ones_are_edited(
    gateway: Gateway, github: responses.RequestsMock
) -> None:
    changes = [
        ThreadChange(
            thread=Thread(id=f"T{number}", comment_id=f"C{number}", path="t.py", line=1, body=BODY),
            kind="close",
            body=f"{BODY} closed",
        )
        for number in range(25)
    ]

    def answer(asked: dict[str, Any]) -> Any:
        given = asked["variables"]
        refused = {name for name, values in given.items() if values.get("threadId") == "T3"}
        data = {name: None if name in refused else {"clientMutationId": name} for name in given}
        return {"data": data, "errors": [{"type": "FORBIDDEN", "message": "no"}] if refused else []}

    asked = answer_with(github, answer)
    with gateway.publishing():
        assert gateway.talks.change(changes, gateway.contents_writer) == 25
    kinds = [
        sorted({values for values in one["query"].split() if values.startswith(("resolve", "update", "min"))})
        for one in asked
    ]
    assert [len(one["variables"]) for one in asked] == [20, 5, 2]
    assert all(kind[0].startswith("resolveReviewThread") for kind in kinds[:2])
    assert [
        values.get("subjectId") or values.get("pullRequestReviewCommentId") for values in asked[2]["variables"].values()
    ] == [
        "C3",
        "C3",
    ]


def test_a_summary_that_is_too_long_is_cut_and_its_ledger_is_not(
    gateway: Gateway, github: responses.RequestsMock
) -> None:
    row = Ignored(rule="PF101", reason="why not", who="dana", when="2026", head_sha="a" * 40)
    ledger = Ledger(ignores=(row,))
    github.post(f"{API}/repos/acme/training/issues/1/comments", json={"id": 1, "body": ""}, status=201)
    text = f"{SUMMARY_MARKER}\n" + "<details><summary>much</summary>\n" + "é line\n" * 20_000
    with gateway.publishing():
        write_summary(gateway, 1, text, ledger, Memory())
    body = json.loads(github.calls[-1].request.body or "")["body"]
    assert len(body) <= 65_536
    assert "… cut: " in body
    assert "</details>" in body
    assert gateway.unsealed(body, 1).ledger == ledger
    assert gateway.unsealed(body, 2).problem
