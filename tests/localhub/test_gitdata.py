"""Commits through the Git data API, threads of people, and what owners do: in GitHub's shapes, with its refusals."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bot.localhub.server import Server
from tests.localhub import world as worlds
from tests.localhub.conftest import crossed
from tests.localhub.world import World


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[World]:
    """A world whose installation may write contents."""
    with Server(tmp_path / "hub") as server:
        found = worlds.build(server, tmp_path)
        with server.service.hub.lock:
            found.installation.permissions["contents"] = "write"
        yield found
        assert [fault for fault in crossed(server) if not fault.startswith("not described")] == []


def _commit(world: World, token: str, parent: str, content: bytes, mode: str = "100644") -> str:
    body = {"content": base64.b64encode(content).decode(), "encoding": "base64"}
    blob = world.call("POST", "/git/blobs", body, token=token).json()["sha"]
    tree = world.call("GET", f"/git/commits/{parent}", token=token).json()["tree"]["sha"]
    entry = {"path": "train.py", "mode": mode, "type": "blob", "sha": blob}
    made = world.call("POST", "/git/trees", {"base_tree": tree, "tree": [entry]}, token=token)
    assert made.status_code == 201, made.text
    whole: dict[str, Any] = {"message": "Fix", "tree": made.json()["sha"], "parents": [parent]}
    return str(world.call("POST", "/git/commits", whole, token=token).json()["sha"])


def _advance(world: World, token: str, sha: str, branch: str = "feature", **more: Any) -> requests.Response:
    return world.call("PATCH", f"/git/refs/heads/{branch}", {"sha": sha, **more}, token=token)


def test_a_commit_moves_the_branch_and_its_pull_request(writer: World) -> None:
    token, head = writer.token(), writer.pull.head_sha
    sha = _commit(writer, token, head, b"new\r\n\xff")
    assert _advance(writer, token, sha).status_code == 200
    assert writer.pull.head_sha == sha
    git = writer.repo.git
    entry = git.entry(sha, "train.py")
    assert entry is not None
    assert git.blob(entry.sha) == b"new\r\n\xff"
    assert git.entry(sha, "new/data.py") == git.entry(head, "new/data.py")
    assert writer.call("GET", "/git/ref/heads/feature", token=token).json()["object"]["sha"] == sha
    events = [one.action for one in writer.server.service.hub.rows.deliveries.values() if one.event == "pull_request"]
    assert events == ["opened", "synchronize"]


def test_only_forward_only_where_allowed(writer: World, tmp_path: Path) -> None:
    token, head = writer.token(), writer.pull.head_sha
    one, other = (_commit(writer, token, head, text) for text in (b"one", b"other"))
    assert _advance(writer, token, one).status_code == 200
    refused = _advance(writer, token, other)
    assert (refused.status_code, refused.json()["message"]) == (422, "Update is not a fast forward")
    gone = _advance(writer, token, one, "nowhere")
    assert (gone.status_code, gone.json()["message"]) == (422, "Reference does not exist")
    place = f"{writer.server.url}/_hub/repos/{writer.repo.full_name}/protected"
    requests.post(place, json={"branch": "feature"}, timeout=10).raise_for_status()
    after = _commit(writer, token, one, b"three")
    assert "rule violations" in _advance(writer, token, after).json()["message"]


def test_without_the_permission_nothing_is_written(world: World) -> None:
    assert world.call("POST", "/git/blobs", {"content": "x"}).status_code == 403
    assert _advance(world, world.token(), "a" * 40).status_code == 403


def test_people_begin_threads_and_answer_in_them(world: World) -> None:
    where = f"{world.server.url}/_hub/repos/{world.repo.full_name}/pulls/1/threads"
    first = requests.post(where, json={"path": "train.py", "line": 3, "body": "a", "user": "dana"}, timeout=10).json()
    second = requests.post(where, json={"in_reply_to": first["id"], "body": "b", "user": "olga"}, timeout=10).json()
    third = requests.post(where, json={"in_reply_to": second["id"], "body": "c", "user": "dana"}, timeout=10).json()
    assert (second["in_reply_to_id"], third["in_reply_to_id"]) == (first["id"], first["id"])
    assert world.call("GET", f"/pulls/comments/{first['id']}").json()["body"] == "a"
    outside = requests.post(where, json={"path": "train.py", "line": 15, "body": "x", "user": "dana"}, timeout=10)
    assert outside.status_code == 422


def test_owners_grant_suspend_and_queue(world: World) -> None:
    base = f"{world.server.url}/_hub/installations/{world.installation.id}"
    requests.post(f"{base}/permissions", json={"permissions": {"contents": "write"}}, timeout=10).raise_for_status()
    assert world.token(permissions={"contents": "write"})
    old = world.token()
    requests.post(f"{base}/suspended", json={"suspended": True}, timeout=10).raise_for_status()
    assert world.call("GET", "/pulls/1", token=old).status_code == 403
    requests.post(f"{base}/suspended", json={"suspended": False}, timeout=10).raise_for_status()
    where = f"{world.server.url}/_hub/repos/{world.repo.full_name}/pulls/1/queue"
    sha = requests.post(where, json={"user": "dana"}, timeout=10).json()["sha"]
    assert world.repo.git.commit(sha).parents == (world.pull.base_sha, world.pull.head_sha)
    told = [one.action for one in world.server.service.hub.rows.deliveries.values() if one.event == "installation"]
    assert told == ["new_permissions_accepted", "suspend", "unsuspend"]
