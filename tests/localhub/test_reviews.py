"""Reviews and comments: what is taken, what is refused, and what becomes of a comment after a push."""

from __future__ import annotations

from typing import Any

import pytest

from bot.localhub import people
from tests.localhub.world import HEAD, World, commit

PART = "Pull request review thread line must be part of the diff"
BLANK = "Pull request review thread diff hunk can't be blank"


def _comment(**changed: Any) -> dict[str, Any]:
    entry = {"path": "train.py", "line": 4, "side": "RIGHT", "body": "Look here."} | changed
    return {key: value for key, value in entry.items() if value is not None}


def _review(world: World, *comments: dict[str, Any], **changed: Any) -> dict[str, Any]:
    body = {"commit_id": world.pull.head_sha, "event": "COMMENT", "body": "A review.", "comments": list(comments)}
    return {key: value for key, value in (body | changed).items() if value is not None}


def test_pygithub_posts_a_review_with_a_multi_line_comment(world: World) -> None:
    repo = world.client().get_repo("acme/trainer")
    pull = repo.get_pull(1)
    entry: Any = _comment(start_line=3, start_side="RIGHT")
    review = pull.create_review(repo.get_commit(pull.head.sha), "Two things.", "COMMENT", [entry])
    assert (review.state, review.user.login) == ("COMMENTED", "preflight[bot]")
    posted = list(pull.get_review_comments())
    assert [(one.path, one.start_line, one.line) for one in posted] == [("train.py", 3, 4)]
    assert posted[0].diff_hunk.split("\n")[-1] == "+line three and a half"


@pytest.mark.parametrize(
    ("changed", "errors"),
    [
        ({"line": 15}, [PART, BLANK]),
        ({"path": "nowhere.py"}, ["Path could not be resolved"]),
        ({"start_line": 4}, ["Pull request review thread start line must precede the end line"]),
        ({"start_line": 5}, ["Pull request review thread start line must precede the end line"]),
        (
            {"start_line": 4, "line": 26},
            ["Pull request review thread start line must be part of the same hunk as the line"],
        ),
        ({"start_line": 15, "line": 26}, ["Pull request review thread start line must be part of the diff"]),
        ({"line": None}, ["Pull request review thread line can't be blank"]),
        ({"side": "MIDDLE"}, ["Variable $side of type DiffSide was provided invalid value"]),
    ],
)
def test_one_bad_anchor_refuses_the_whole_review(world: World, changed: dict[str, Any], errors: list[str]) -> None:
    answer = world.call("POST", "/pulls/1/reviews", _review(world, _comment(), _comment(**changed)))
    assert (answer.status_code, answer.json()["message"], answer.json()["errors"]) == (
        422,
        "Unprocessable Entity",
        errors,
    )
    assert world.call("GET", "/pulls/1/comments").json() == []
    assert world.call("GET", "/pulls/1/reviews").json() == []


@pytest.mark.parametrize(
    "body",
    [
        {"body": ""},
        {"body": None},
        {"event": "MAYBE"},
        {"body": "x" * 65_537},
        {"commit_id": "0" * 40},
        {"comments": [{"path": "train.py", "line": 4, "body": ""}]},
        {"comments": [{"path": "train.py", "body": "whole", "subject_type": "file"}]},
    ],
)
def test_a_review_with_a_bad_field_is_422(world: World, body: dict[str, Any]) -> None:
    assert world.call("POST", "/pulls/1/reviews", _review(world, **body)).status_code == 422


def test_without_an_event_a_review_is_pending_and_blocks_the_next(world: World) -> None:
    pending = world.call("POST", "/pulls/1/reviews", _review(world, _comment(), event=None)).json()
    assert pending["state"] == "PENDING"
    assert world.call("GET", "/pulls/1/comments").json() == []
    second = world.call("POST", "/pulls/1/reviews", _review(world))
    assert second.status_code == 422
    assert second.json()["errors"] == ["User can only have one pending review per pull request"]
    assert world.call("DELETE", f"/pulls/1/reviews/{pending['id']}").status_code == 200
    posted = world.call("POST", "/pulls/1/reviews", _review(world, _comment()))
    assert posted.json()["state"] == "COMMENTED"
    refused = world.call("DELETE", f"/pulls/1/reviews/{posted.json()['id']}")
    assert refused.status_code == 422


def test_a_comment_follows_its_line_or_becomes_outdated(world: World) -> None:
    world.call("POST", "/pulls/1/reviews", _review(world, _comment(), _comment(line=26)))
    commit(world.source, "Push", {"train.py": "new first line\n" + HEAD.replace("line 25!", "line twenty-five")})
    hub = world.server.service.hub
    with hub.lock:
        people.push(world.server.service, world.repo, "feature", world.source, "feature", hub.account("dana"))
    first, second = world.call("GET", "/pulls/1/comments").json()
    assert (first["line"], first["original_line"], first["commit_id"]) == (5, 4, world.pull.head_sha)
    assert (second["line"], second["original_line"]) == (None, 26)


def test_replies_edits_reactions_and_deletion(world: World) -> None:
    world.call("POST", "/pulls/1/reviews", _review(world, _comment()))
    first = world.call("GET", "/pulls/1/comments").json()[0]
    reply = world.call("POST", f"/pulls/1/comments/{first['id']}/replies", {"body": "Done."})
    assert (reply.status_code, reply.json()["in_reply_to_id"], reply.json()["line"]) == (201, first["id"], 4)
    place = f"/pulls/comments/{first['id']}"
    assert world.call("PATCH", place, {"body": "Better words."}).json()["body"] == "Better words."
    assert world.call("POST", f"{place}/reactions", {"content": "eyes"}).status_code == 201
    assert world.call("POST", f"{place}/reactions", {"content": "eyes"}).status_code == 200
    assert world.call("POST", f"{place}/reactions", {"content": "wave"}).status_code == 422
    assert world.call("DELETE", place).status_code == 204
    assert [one["id"] for one in world.call("GET", "/pulls/1/comments").json()] == [reply.json()["id"]]


def test_conversation_comments(world: World) -> None:
    issue = world.client().get_repo("acme/trainer").get_issue(1)
    made = issue.create_comment("Hello.")
    made.edit("Hello again.")
    made.create_reaction("rocket")
    assert [(one.body, one.user.login) for one in issue.get_comments()] == [("Hello again.", "preflight[bot]")]
    assert world.call("POST", "/issues/1/comments", {"body": "x" * 65_537}).status_code == 422
    assert world.call("POST", "/issues/1/comments", {"body": " "}).status_code == 422
    world.pull.is_locked = True
    assert world.call("POST", "/issues/1/comments", {"body": "x"}).status_code == 403


def test_permission_of_collaborators(world: World) -> None:
    repo = world.client().get_repo("acme/trainer")
    assert [repo.get_collaborator_permission(name) for name in ("dana", "olga", "mallory")] == ["write", "read", "none"]
    assert world.call("GET", "/collaborators/nobody/permission").status_code == 404


def test_graphql_blobs_threads_and_the_contents_write_rule(world: World) -> None:
    world.call("POST", "/pulls/1/reviews", _review(world, _comment()))
    blobs = [one["sha"] for one in world.call("GET", "/pulls/1/files").json()]
    fields = " ".join(
        f'b{number}: object(oid: "{sha}") {{ ... on Blob {{ oid byteSize isBinary isTruncated text }} }}'
        for number, sha in enumerate(blobs)
    )
    requester = world.client().requester
    query = f"query($o: String!, $n: String!) {{ repository(owner: $o, name: $n) {{ {fields} }} }}"
    _, data = requester.graphql_query(query, {"o": "acme", "n": "trainer"})
    texts = [data["data"]["repository"][f"b{number}"]["text"] for number in range(len(blobs))]
    assert texts == ["x = 1\n", HEAD]

    inner = "id isResolved isOutdated path line comments(first: 10) { nodes { id databaseId author { login } } }"
    threads = f"reviewThreads(first: 50) {{ nodes {{ {inner} }} }}"
    threads = f'{{ repository(owner: "acme", name: "trainer") {{ pullRequest(number: 1) {{ {threads} }} }} }}'
    _, data = requester.graphql_query(threads, {})
    thread = data["data"]["repository"]["pullRequest"]["reviewThreads"]["nodes"][0]
    assert (thread["path"], thread["line"], thread["isResolved"]) == ("train.py", 4, False)

    token = world.token()
    url = world.server.url + "/api/graphql"
    import requests

    def mutate(name: str, given: str) -> Any:
        query = f"mutation {{ {name}(input: {{{given}}}) {{ clientMutationId }} }}"
        headers = {"Authorization": f"Bearer {token}"}
        return requests.post(url, json={"query": query}, headers=headers, timeout=10).json()

    refused = mutate("resolveReviewThread", f'threadId: "{thread["id"]}"')
    assert refused["errors"][0]["type"] == "FORBIDDEN"
    world.installation.permissions["contents"] = "write"
    token = world.token()
    assert "errors" not in mutate("resolveReviewThread", f'threadId: "{thread["id"]}"')
    comment = thread["comments"]["nodes"][0]
    assert "errors" not in mutate("minimizeComment", f'subjectId: "{comment["id"]}", classifier: OUTDATED')
    assert world.server.service.hub.rows.review_comments[comment["databaseId"]].minimized_reason == "outdated"
    mine = mutate("updatePullRequestReviewComment", f'pullRequestReviewCommentId: "{comment["id"]}", body: "edited"')
    assert "errors" not in mine
    row = world.server.service.hub.rows.review_comments[comment["databaseId"]]
    assert row.body == "edited"
    row.author = world.server.service.hub.rows.accounts["dana"]
    other = mutate("updatePullRequestReviewComment", f'pullRequestReviewCommentId: "{comment["id"]}", body: "x"')
    assert other["errors"][0]["type"] == "FORBIDDEN"
    unknown = mutate("minimizeComment", f'subjectId: "{comment["id"]}", classifier: BORING')
    assert "does not exist" in unknown["errors"][0]["message"]


def test_graphql_shows_the_conversation_in_pages(world: World) -> None:
    for number in range(3):
        world.call("POST", "/issues/1/comments", {"body": f"comment {number}"})
    query = """query($after: String) { repository(owner: "acme", name: "trainer") { pullRequest(number: 1) {
      comments(first: 2, after: $after) {
        pageInfo { hasNextPage endCursor } nodes { databaseId body author { __typename login } } }
    } } }"""
    bodies, after = [], None
    while True:
        _, data = world.client().requester.graphql_query(query, {"after": after})
        page = data["data"]["repository"]["pullRequest"]["comments"]
        bodies += [(one["body"], one["author"]["__typename"], one["author"]["login"]) for one in page["nodes"]]
        if not page["pageInfo"]["hasNextPage"]:
            break
        after = page["pageInfo"]["endCursor"]
    assert bodies == [(f"comment {number}", "Bot", "preflight") for number in range(3)]
