"""Deliveries: signed, recorded, redelivered under the same guid; and the faults a test can order."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from bot.localhub import people
from bot.localhub.faults import Fault
from bot.localhub.server import Server
from tests.localhub.conftest import crossed
from tests.localhub.world import SECRET, World, build, commit


class Receiver(HTTPServer):
    """Keeps what it was sent; answers `status`."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 202
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        return


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def told(tmp_path: Path, receiver: Receiver) -> Iterator[World]:
    with Server(tmp_path / "hub") as server:
        yield build(server, tmp_path, webhook_url=f"http://127.0.0.1:{receiver.server_port}/webhook")
        assert crossed(server) == []


def test_opening_a_pull_request_is_told_with_a_signature(told: World, receiver: Receiver) -> None:
    told.server.service.dispatcher.wait_idle()
    headers, body = receiver.got[0]
    assert (headers["X-GitHub-Event"], headers["Content-Type"]) == ("pull_request", "application/json")
    assert headers["X-Hub-Signature-256"] == "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    payload = json.loads(body)
    assert (payload["action"], payload["number"], payload["installation"]["id"]) == (
        "opened",
        1,
        told.installation.id,
    )


def test_a_failed_delivery_is_listed_and_redelivered_under_its_guid(told: World, receiver: Receiver) -> None:
    told.server.service.dispatcher.wait_idle()
    receiver.status = 503
    hub = told.server.service.hub
    with hub.lock:
        people.comment(told.server.service, told.pull, "/preflight help", hub.account("dana"))
    told.server.service.dispatcher.wait_idle()
    headers = {"Authorization": f"Bearer {told.jwt()}"}
    url = f"{told.server.api_url}/app/hook/deliveries"
    failed = requests.get(f"{url}?status=failure", headers=headers, timeout=10).json()
    assert [(one["event"], one["status_code"]) for one in failed] == [("issue_comment", 503)]
    receiver.status = 202
    assert requests.post(f"{url}/{failed[0]['id']}/attempts", headers=headers, timeout=10).status_code == 202
    told.server.service.dispatcher.wait_idle()
    newest = requests.get(url, headers=headers, timeout=10).json()[0]
    assert (newest["guid"], newest["redelivery"], newest["status_code"]) == (failed[0]["guid"], True, 202)
    assert receiver.got[-1][1] == receiver.got[-2][1]


def test_nobody_listening_is_a_failed_delivery(world: World) -> None:
    world.server.service.dispatcher.wait_idle()
    statuses = {one.status_code for one in world.server.service.hub.rows.deliveries.values()}
    assert statuses == {502}


def test_people_press_buttons(told: World, receiver: Receiver) -> None:
    action = {"label": "Explain", "description": "d", "identifier": "explain"}
    body = {"name": "x", "head_sha": told.pull.head_sha, "conclusion": "success", "actions": [action]}
    run_id = told.call("POST", "/check-runs", body).json()["id"]
    hub = told.server.service.hub
    dana = hub.account("dana")
    with hub.lock:
        run = hub.rows.runs[run_id]
        people.rerun(told.server.service, run, dana)
        people.rerun_all(told.server.service, run.suite, dana)
        people.press(told.server.service, run, "explain", dana)
        people.change_state(told.server.service, told.pull, "converted_to_draft", dana)
        people.change_state(told.server.service, told.pull, "closed", dana)
    told.server.service.dispatcher.wait_idle()
    told_of = [(headers["X-GitHub-Event"], json.loads(body)["action"]) for headers, body in receiver.got]
    assert told_of == [
        ("pull_request", "opened"),
        ("check_suite", "requested"),
        ("check_run", "created"),
        ("check_run", "rerequested"),
        ("check_suite", "rerequested"),
        ("check_run", "requested_action"),
        ("pull_request", "converted_to_draft"),
        ("pull_request", "closed"),
    ]


def test_a_fork_whose_repository_was_deleted(told: World, receiver: Receiver) -> None:
    service = told.server.service
    hub = service.hub
    olga = hub.account("olga")
    commit(told.source, "Only in the fork", {"train.py": "z = 3\n"})
    with hub.lock:
        copy = people.fork(service, told.repo, olga)
        people.push(service, copy, "feature", told.source, "feature", olga)
        pull = people.open_pull(
            service, told.repo, title="From a fork", body="", base="main", head="feature", author=olga, head_repo=copy
        )
        people.delete_fork(service, pull)
    seen = told.call("GET", f"/pulls/{pull.number}").json()
    assert (seen["head"]["repo"], seen["head"]["label"]) == (None, "olga:feature")
    assert told.call("GET", f"/contents/train.py?ref={pull.head_sha}").status_code == 200
    assert told.call("GET", f"/commits/{pull.head_sha}/pulls").json() == []


def _comments(world: World) -> int:
    return len(world.server.service.hub.conversation_of(world.pull))


@pytest.mark.parametrize(
    ("fault", "status", "is_done"),
    [
        (Fault(kind="status", method="POST", path="/issues/1/comments$", status=502), 502, False),
        (Fault(kind="status", method="POST", path="/issues/1/comments$", status=502, perform=True), 502, True),
        (Fault(kind="status", path="comments", status=429, headers={"Retry-After": "1"}), 429, False),
    ],
)
def test_faults_answer_in_githubs_place(world: World, fault: Fault, status: int, is_done: bool) -> None:
    token = world.token()
    world.server.service.faults.add(fault)
    answer = world.call("POST", "/issues/1/comments", {"body": "x"}, token=token)
    assert (answer.status_code, _comments(world)) == (status, int(is_done))
    for name, value in fault.headers.items():
        assert answer.headers[name] == value
    assert world.call("POST", "/issues/1/comments", {"body": "x"}, token=token).status_code == 201


def test_a_lost_answer_was_done(world: World) -> None:
    token = world.token()
    world.server.service.faults.add(Fault(kind="lose", method="POST", path="/comments$"))
    with pytest.raises(requests.ConnectionError):
        world.call("POST", "/issues/1/comments", {"body": "x"}, token=token)
    assert _comments(world) == 1


def test_a_moved_branch_is_a_push(told: World) -> None:
    """Also to the default branch; what it changed is listed, a forced one says so."""
    service, hub = told.server.service, told.server.service.hub
    with hub.lock:
        dana = hub.account("dana")
        start = commit(told.source, "more", {"new/x.py": "x = 2\n", "new/data.py": None, "README.md": "# say\n"})
        people.push(service, told.repo, "main", told.source, "HEAD", dana)
        people.push(service, told.repo, "main", told.source, "refs/heads/main", dana)
        people.push(service, told.repo, "other", told.source, "HEAD", dana)
        people.push(service, told.repo, "other", told.source, "HEAD", dana)
        people.delete_branch(service, told.repo, "other", dana)
    service.dispatcher.wait_idle()
    sent = [one.payload for one in hub.rows.deliveries.values() if one.event == "push"]
    assert [(one["ref"], one["created"], one["forced"], one["deleted"]) for one in sent] == [
        ("refs/heads/main", False, False, False),
        ("refs/heads/main", False, True, False),
        ("refs/heads/other", True, False, False),
        ("refs/heads/other", False, False, True),
    ]
    head = sent[0]["head_commit"]
    assert (sent[0]["after"], head["id"]) == (start, start)
    assert (head["added"], head["removed"], head["modified"]) == (["new/x.py"], ["new/data.py"], ["README.md"])
