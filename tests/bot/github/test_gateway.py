"""What we send to GitHub, and what we do when it fails: no write is repeated blindly, nothing is lost."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import redis
import requests
import responses

from bot.core.plan import Annotation, CheckOutcome, ReviewComment
from bot.errors import InputError, Unavailable
from bot.github.contents import BATCH, MAX_SINGLE, Entry, blob_id
from bot.github.errors import BadCredentials, Forbidden, GitHubDown, Invalid, RateLimited, Refused
from bot.github.gateway import Gateway
from bot.github.pulls import PullInfo
from bot.redact import redact
from bot.sources.base import ChangedFile
from bot.store import Keys
from tests.bot.github.conftest import API, REPO, SHA, run_json, sent


def _calls(github: responses.RequestsMock, method: str, part: str) -> list[Any]:
    return [call for call in github.calls if call.request.method == method and part in str(call.request.url)]


def _note(line: int) -> Annotation:
    return Annotation(path="a.py", start_line=line, end_line=line, level="warning", title="t", message="m")


def _outcome(num_annotations: int = 0, **more: Any) -> CheckOutcome:
    values: dict[str, Any] = {
        "name": "preflight/code",
        "conclusion": "neutral",
        "state": "borderline",
        "title": "title",
        "summary": "summary",
        "annotations": tuple(_note(line) for line in range(1, num_annotations + 1)),
    }
    return CheckOutcome(**{**values, **more})


def _comment(line: int) -> ReviewComment:
    return ReviewComment(path="a.py", line=line, start_line=None, body=f"fp{line}: say", fingerprint=f"fp{line}:")


# --- tokens -----------------------------------------------------------------------------------------------------


def test_token_is_narrow_cached_encrypted_and_renewed(
    gateway: Gateway, github: responses.RequestsMock, client: redis.Redis
) -> None:
    github.get(f"{REPO}/collaborators/dana/permission", json={"permission": "write"})
    assert gateway.permission("dana") == "write"
    assert gateway.permission("dana") == "write"
    [asked] = _calls(github, "POST", "/access_tokens")
    assert sent(asked)["repository_ids"] == [9]
    assert sent(asked)["permissions"]["contents"] == "read"
    [key] = client.keys("preflight:token:5:*")
    stored: Any = client.get(key)
    assert stored
    assert b"ghs_" not in stored
    assert 3_000 < client.ttl(key) <= 3_300
    assert all(call.request.headers["X-GitHub-Api-Version"] == "2022-11-28" for call in github.calls)


def test_401_asks_for_a_fresh_token_once(gateway: Gateway, github: responses.RequestsMock) -> None:
    url = f"{REPO}/collaborators/dana/permission"
    github.get(url, json={"message": "Bad credentials"}, status=401)
    github.get(url, json={"permission": "admin"})
    assert gateway.permission("dana") == "admin"
    assert len(_calls(github, "POST", "/access_tokens")) == 2
    assert gateway.permission("dana") == "admin"  # asked once a job
    github.get(f"{REPO}/collaborators/rita/permission", json={"message": "Bad credentials"}, status=401)
    with pytest.raises(BadCredentials):
        gateway.permission("rita")


def test_a_permission_that_was_not_accepted_is_said(gateway: Gateway, github: responses.RequestsMock) -> None:
    body = {"message": "The permissions requested are not granted to this installation."}
    github.replace(responses.POST, f"{API}/app/installations/5/access_tokens", json=body, status=422)
    with pytest.raises(InputError, match="not granted"):
        gateway.pull(1)


def test_permission_of_a_stranger(gateway: Gateway, github: responses.RequestsMock) -> None:
    github.get(f"{REPO}/collaborators/eve/permission", json={"message": "Not Found"}, status=404)
    assert gateway.permission("eve") == "none"
    github.get(f"{REPO}/collaborators/mal/permission", json={"message": "Resource not accessible"}, status=403)
    with pytest.raises(Forbidden):  # any other error refuses, it does not permit
        gateway.permission("mal")


# --- limits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "headers", "message", "wait"),
    [
        (403, {"Retry-After": "72"}, "You have exceeded a secondary rate limit", 72),
        (429, {"Retry-After": "9"}, "slow down", 9),
        (429, {}, "too many", 60),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, "API rate limit exceeded", 1),
        (403, {}, "You have triggered an abuse detection mechanism", 60),
    ],
)
def test_a_limit_stops_the_whole_installation(
    gateway: Gateway,
    github: responses.RequestsMock,
    status: int,
    headers: dict[str, str],
    message: str,
    wait: float,
    client: redis.Redis,
) -> None:
    url = f"{REPO}/issues/comments/3/reactions"
    github.post(url, json={"message": message}, status=status, headers=headers)
    with gateway.publishing(), pytest.raises(RateLimited) as caught:
        gateway.conversation.react(3, "eyes")
    assert caught.value.retry_after == pytest.approx(wait, abs=1)
    assert len(_calls(github, "POST", "/reactions")) == 1
    if wait > 6:
        with pytest.raises(RateLimited):  # another worker does not even ask
            gateway.pull(1)
        assert not _calls(github, "GET", "/pulls/1")


def test_writes_need_the_lease(gateway: Gateway, github: responses.RequestsMock) -> None:
    with pytest.raises(RuntimeError, match="outside"):
        gateway.conversation.react(3, "eyes")


# --- lost answers -----------------------------------------------------------------------------------------------


def test_get_is_retried_and_post_is_looked_for_first(gateway: Gateway, github: responses.RequestsMock) -> None:
    identifier = f"9:1:{SHA}:1:"
    github.post(f"{REPO}/check-runs", body=requests.ConnectionError("cut"))
    found = {"total_count": 1, "check_runs": [run_json(8, external_id=identifier)]}
    github.get(f"{REPO}/commits/{SHA}/check-runs", json=found)
    with gateway.publishing():
        assert gateway.checks.start("preflight/code", SHA, identifier, "…").id == 8
    assert len(_calls(github, "POST", "/check-runs")) == 1


def test_a_write_that_was_not_done_is_written_again(gateway: Gateway, github: responses.RequestsMock) -> None:
    github.post(f"{REPO}/check-runs", json={"message": "Server Error"}, status=502)
    github.post(f"{REPO}/check-runs", json=run_json(9), status=201)
    github.get(f"{REPO}/commits/{SHA}/check-runs", json={"total_count": 0, "check_runs": []})
    with gateway.publishing():
        assert gateway.checks.start("preflight/code", SHA, f"9:1:{SHA}:1:", "…").id == 9


def test_github_down_is_unavailable(gateway: Gateway, github: responses.RequestsMock) -> None:
    github.get(f"{REPO}/pulls/1", body=requests.ReadTimeout("slow"))
    with pytest.raises(GitHubDown):
        gateway.pull(1)
    assert issubclass(GitHubDown, Unavailable)


def test_a_lost_answer_doubles_no_annotation(gateway: Gateway, github: responses.RequestsMock) -> None:
    url = f"{REPO}/check-runs/4"
    github.patch(url, body=requests.ReadTimeout("lost"))
    github.patch(url, json=run_json(4))
    github.get(url, json=run_json(4, output={"annotations_count": 50}))
    github.get(url, json=run_json(4, output={"annotations_count": 70}, status="completed"))
    with gateway.publishing():
        gateway.checks.conclude(4, f"9:1:{SHA}:1:borderline", _outcome(70))
    chunks = [len(sent(call)["output"].get("annotations", [])) for call in _calls(github, "PATCH", "/check-runs/4")]
    assert chunks == [50, 20]


def test_annotations_are_resumed_where_a_dead_job_stopped(gateway: Gateway, github: responses.RequestsMock) -> None:
    url = f"{REPO}/check-runs/4"
    github.get(url, json=run_json(4, output={"annotations_count": 50}))
    github.patch(url, json=run_json(4))
    with gateway.publishing():
        gateway.checks.conclude(4, f"9:1:{SHA}:1:borderline", _outcome(120), look_first=True)
    bodies = [sent(call) for call in _calls(github, "PATCH", "/check-runs/4")]
    lines = [note["start_line"] for body in bodies for note in body["output"]["annotations"]]
    assert lines == list(range(51, 121))
    assert [body.get("status") for body in bodies] == [None, "completed"]


def test_long_texts_are_cut_by_bytes(gateway: Gateway, github: responses.RequestsMock) -> None:
    github.patch(f"{REPO}/check-runs/4", json=run_json(4))
    with gateway.publishing():
        gateway.checks.conclude(4, "x", _outcome(title="é" * 400, summary="é" * 50_000, text="日" * 40_000))


# --- reviews ----------------------------------------------------------------------------------------------------


def _refuses(bad: set[int], posted: list[dict[str, Any]]) -> Any:
    def answer(request: Any) -> tuple[int, dict[str, str], str]:
        body = json.loads(request.body)
        if {comment["line"] for comment in body["comments"]} & bad:
            error = {"message": "Unprocessable Entity", "errors": ["Line could not be resolved"]}
            return 422, {}, json.dumps(error)
        posted.append(body)
        return 200, {}, json.dumps({"id": len(posted)})

    return answer


def test_one_bad_line_loses_neither_the_review_nor_itself(gateway: Gateway, github: responses.RequestsMock) -> None:
    posted: list[dict[str, Any]] = []
    github.add_callback(responses.POST, f"{REPO}/pulls/1/reviews", _refuses({3}, posted))
    for number in range(1, 10):
        github.delete(f"{REPO}/pulls/1/reviews/{number}", json={})
    with gateway.publishing():
        assert gateway.conversation.review(1, SHA, "body", [_comment(line) for line in range(1, 6)]) == 4
    seen = [body for body in posted if "event" in body]
    assert len(seen) == 1, "one review, one notification"
    assert [comment["line"] for comment in seen[0]["comments"]] == [1, 2, 4, 5]
    assert "a.py:3" in seen[0]["body"]
    assert seen[0]["commit_id"] == SHA
    hidden = len(posted) - 1
    assert len(_calls(github, "DELETE", "/reviews/")) == hidden


def test_own_pending_review_is_removed_first(gateway: Gateway, github: responses.RequestsMock) -> None:
    url = f"{REPO}/pulls/1/reviews"
    error = {"message": "Unprocessable", "errors": ["User can only have one pending review per pull request"]}
    github.post(url, json=error, status=422)
    github.post(url, json={"id": 2})
    ours, theirs = {"type": "Bot", "login": "preflight[bot]"}, {"type": "User", "login": "dana"}
    reviews = [
        {"id": 11, "state": "PENDING", "user": ours, "body": ""},
        {"id": 12, "state": "APPROVED", "user": theirs, "body": ""},
    ]
    github.get(url, json=reviews)
    github.delete(f"{url}/11", json={})
    with gateway.publishing():
        assert gateway.conversation.review(1, SHA, "body", [_comment(1)]) == 1


def test_a_review_without_comments_that_is_refused_is_an_error(
    gateway: Gateway, github: responses.RequestsMock
) -> None:
    github.post(f"{REPO}/pulls/1/reviews", json={"message": "Validation Failed"}, status=422)
    with gateway.publishing(), pytest.raises(Invalid):
        gateway.conversation.review(1, SHA, "body", [])


def test_a_stranger_with_our_marker_is_not_us(gateway: Gateway, github: responses.RequestsMock) -> None:
    fake = {"id": 1, "body": "<!-- m -->", "user": {"type": "User", "login": "preflight"}}
    github.get(f"{REPO}/issues/1/comments", json=[fake])
    github.post(f"{REPO}/issues/1/comments", json={"id": 2, "body": "x"}, status=201)
    with gateway.publishing():
        gateway.conversation.upsert(1, "<!-- m -->", "text")
    assert len(_calls(github, "POST", "/issues/1/comments")) == 1


def test_summary_is_edited_and_an_equal_one_left_alone(gateway: Gateway, github: responses.RequestsMock) -> None:
    ours = {"id": 1, "body": "<!-- m -->\nold", "user": {"type": "Bot", "login": "preflight[bot]"}}
    github.get(f"{REPO}/issues/1/comments", json=[ours])
    github.patch(f"{REPO}/issues/comments/1", json={"id": 1})
    with gateway.publishing():
        gateway.conversation.upsert(1, "<!-- m -->", "old")
        assert not _calls(github, "PATCH", "/issues/comments/1")
        gateway.conversation.upsert(1, "<!-- m -->", "new")
    assert len(_calls(github, "PATCH", "/issues/comments/1")) == 1


def test_renamed_repository(gateway: Gateway, github: responses.RequestsMock) -> None:
    moved = f"{API}/repos/acme/renamed/check-runs"
    location = {"Location": moved.replace(":443", "")}
    github.post(f"{REPO}/check-runs", status=307, json={"message": "Moved"}, headers=location)
    github.post(moved, json=run_json(6), status=201)
    with gateway.publishing():
        assert gateway.checks.start("preflight/code", SHA, f"9:1:{SHA}:1:", "…").id == 6


# --- contents ---------------------------------------------------------------------------------------------------


def test_files_that_no_batch_and_no_archive_give_are_asked_for_later_and_not_one_by_one(
    gateway: Gateway, github: responses.RequestsMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    github.post(f"{API}/graphql", json={"errors": [{"type": "FORBIDDEN", "message": "no"}]})

    def refused(path: str, most: int) -> bytes:  # the archive's host is not in GitHub's description
        raise Refused(403, f"no archives: {path}, {most}")

    monkeypatch.setattr("bot.github.retry.Api.download", lambda api, path, most: refused(path, most))
    texts = [b"%d" % number for number in range(MAX_SINGLE + 1)]
    with pytest.raises(Unavailable, match="neither in batches"):
        gateway.contents.blobs([Entry(blob_id(text), len(text)) for text in texts], SHA)
    assert not _calls(github, "GET", "/git/blobs/")


def test_blobs_in_batches_verified_and_cached(
    gateway: Gateway, github: responses.RequestsMock, client: redis.Redis
) -> None:
    texts = [f"x = {number}\n".encode() for number in range(BATCH + 10)]
    latin = "é".encode("latin-1")
    by_id = {blob_id(text): text for text in [*texts, latin]}
    forged = blob_id(texts[0])

    def graphql(request: Any) -> tuple[int, dict[str, str], str]:
        import re

        asked = re.findall(r'(b\d+): object\(oid: "(\w+)"\)', json.loads(request.body)["query"])
        data = {name: {"text": by_id[sha].decode("utf-8", "replace")} for name, sha in asked}
        data |= {name: {"text": "import os"} for name, sha in asked if sha == forged}
        return 200, {}, json.dumps({"data": {"repository": data}})

    github.add_callback(responses.POST, f"{API}/graphql", graphql)
    for sha in (forged, blob_id(latin)):
        content = base64.encodebytes(by_id[sha]).decode()
        github.get(f"{REPO}/git/blobs/{sha}", json={"content": content, "encoding": "base64", "sha": sha, "size": 1})
    entries = [Entry(sha, len(text)) for sha, text in by_id.items()]
    assert gateway.contents.blobs(entries, SHA) == by_id
    assert len(_calls(github, "POST", "/graphql")) == 2
    assert len(_calls(github, "GET", "/git/blobs/")) == 2, "the forged one and the one that is no UTF-8"
    assert gateway.contents.blobs(entries, SHA) == by_id
    assert len(_calls(github, "POST", "/graphql")) == 2, "cached"
    client.set(Keys().blob(9, forged), b"poisoned")
    assert gateway.contents.blobs([entries[0]], SHA)[forged] == texts[0]


def test_tree_leaves_out_links_and_says_when_cut(gateway: Gateway, github: responses.RequestsMock) -> None:
    tree = [
        {"path": "a.py", "mode": "100644", "type": "blob", "sha": "1" * 40, "size": 3},
        {"path": "link", "mode": "120000", "type": "blob", "sha": "2" * 40, "size": 3},
        {"path": "sub", "mode": "160000", "type": "commit", "sha": "3" * 40},
        {"path": "d", "mode": "040000", "type": "tree", "sha": "4" * 40},
    ]
    github.get(f"{REPO}/git/trees/{SHA}", json={"sha": SHA, "url": "u", "tree": tree, "truncated": True})
    for _ in range(2):
        listing = gateway.contents.tree(SHA)
        assert (dict(listing.files), listing.is_cut) == ({"a.py": Entry("1" * 40, 3)}, True)
    assert len(_calls(github, "GET", "/git/trees/")) == 1


def pull_with(num_files: int) -> PullInfo:
    return PullInfo(
        number=1,
        author="dana",
        title="Train",
        is_draft=False,
        is_open=True,
        base_ref="main",
        base_sha="a" * 40,
        head_sha=SHA,
        num_files=num_files,
        num_comments=0,
        num_review_comments=0,
        full_name="acme/training",
        web_url="https://github.com",
        head_ref="feature",
        head_full_name="acme/training",
        default_branch="main",
    )


def test_a_comparison_gives_merge_base_and_files_in_one_request(
    gateway: Gateway, github: responses.RequestsMock
) -> None:
    files = [{"filename": "train.py", "status": "renamed", "previous_filename": "run.py", "patch": "@@ -1 +1 @@"}]
    answer = {"merge_base_commit": {"sha": "b" * 40}, "files": files}
    github.get(f"{REPO}/compare/{'a' * 40}...{SHA}", json=answer)
    expected = ChangedFile(path="train.py", status="renamed", previous_path="run.py", patch="@@ -1 +1 @@")
    assert gateway.changes(pull_with(1)) == ("b" * 40, (expected,))


def test_files_are_paged_where_the_comparison_lists_another_number(
    gateway: Gateway, github: responses.RequestsMock
) -> None:
    github.get(f"{REPO}/compare/{'a' * 40}...{SHA}", json={"merge_base_commit": {"sha": "b" * 40}, "files": []})
    pages = [
        [{"filename": f"f{number}.py", "status": "added"} for number in range(100)],
        [{"filename": "l", "status": "?"}],
    ]
    for number, page in enumerate(pages, 1):
        match = [responses.matchers.query_param_matcher({"per_page": "100", "page": str(number)})]
        github.get(f"{REPO}/pulls/1/files", json=page, match=match)
    assert len(gateway.changes(pull_with(101))[1]) == 101


# --- secrets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["ghs_77_eyJh.eyJi-_x.sig-nature", "ghp_" + "a" * 36, "eyJhbGciOi.eyJpYXQi.c2ln"])
def test_tokens_are_redacted(token: str) -> None:
    assert redact(f"Authorization: token {token} (bad)") == "Authorization: token [redacted] (bad)"
