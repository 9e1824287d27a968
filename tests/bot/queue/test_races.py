"""Events out of order, in bursts and beside each other, with two workers: one review, every check run concluded."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from typing import Any

import pytest
import requests

from tests.bot.queue.stack import TRAIN, Stack
from tests.support import WEBHOOK_SECRET, wait_for


@pytest.fixture
def busy(stack: Stack) -> Stack:
    stack.serve()
    stack.work_on(2)
    return stack


def _send(stack: Stack, event: str, payload: dict[str, Any]) -> None:
    """A delivery of our own making, signed as GitHub would."""
    body = json.dumps(payload).encode()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": "sha256=" + hmac.new(WEBHOOK_SECRET.encode(), body, hashlib.sha256).hexdigest(),
    }
    assert requests.post(f"http://{stack.address}/webhook", data=body, headers=headers, timeout=10).status_code == 202


def _payload(stack: Stack, action: str) -> dict[str, Any]:
    sent = stack.control("GET", "/deliveries/payloads")
    return dict(next(one["payload"] for one in sent if one["event"] == "pull_request" and one["action"] == action))


def _settled(stack: Stack, number: int) -> dict[str, Any]:
    stack.hub.service.dispatcher.wait_idle()  # the hub delivers in a thread of its own
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 90, "nothing is open")
    hub = stack.hub.service.hub
    runs = list(hub.rows.runs.values())
    assert runs
    assert {run.status for run in runs} == {"completed"}
    shown = stack.show(number)
    newest = {run["name"]: run for run in shown["check_runs"]}
    assert {run["conclusion"] for run in newest.values()} <= {"success", "neutral", "failure"}
    marks = [comment["body"].partition("\n")[0] for comment in shown["review_comments"]]
    assert len(marks) == len(set(marks))
    assert len([one for one in shown["conversation"] if one["user"]["type"] == "Bot"]) <= 1
    return shown


def test_an_older_push_arrives_after_a_newer(busy: Stack) -> None:
    number = busy.open_pull()
    busy.push("feature", {"train.py": TRAIN + "# one\n"})
    busy.push("feature", {"train.py": TRAIN + "# two\n"})
    _send(busy, "pull_request", _payload(busy, "opened"))
    shown = _settled(busy, number)
    assert {review["commit_id"] for review in shown["reviews"]} == {shown["pull"]["head"]["sha"]}
    assert len(shown["reviews"]) == 1


def test_bursts_of_the_same_wish(busy: Stack) -> None:
    """Closed and reopened, retargeted, re-run: each asks for the same head again."""
    number = busy.open_pull()
    opened = _payload(busy, "opened")
    retargeted = {**opened, "action": "edited", "changes": {"base": {"ref": {"from": "x"}, "sha": {"from": "a" * 40}}}}
    for _ in range(3):
        _send(busy, "pull_request", opened)
        _send(busy, "pull_request", retargeted)
    for action in ("closed", "reopened"):
        where = f"/repos/{busy.repo}/pulls/{number}/state"
        busy.control("POST", where, {"action": action, "user": "dana"})
    shown = _settled(busy, number)
    assert len(shown["reviews"]) == 1
    busy.control("POST", f"/check-suites/{shown['check_runs'][-1]['check_suite']['id']}/rerun", {"user": "dana"})
    for run in shown["check_runs"][-2:]:
        busy.control("POST", f"/check-runs/{run['id']}/rerun", {"user": "dana"})
    wait_for(lambda: len(busy.show(number)["check_runs"]) > len(shown["check_runs"]), 30, "the re-run begins")
    assert len(_settled(busy, number)["reviews"]) == 1


def test_title_edits_are_nobody_s_business(busy: Stack) -> None:
    number = busy.open_pull()
    before = _settled(busy, number)
    edited = {**_payload(busy, "opened"), "action": "edited", "changes": {"title": {"from": "x"}}}
    _send(busy, "pull_request", edited)
    assert len(_settled(busy, number)["check_runs"]) == len(before["check_runs"])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"comment": {"user": {"login": "dana", "type": "Bot"}}}, id="a bot"),
        pytest.param({"action": "edited"}, id="an edit"),
        pytest.param({"issue": {"pull_request": None}}, id="a plain issue"),
        pytest.param({"comment": {"body": "```\n/preflight help\n```"}}, id="in a fence"),
        pytest.param({"comment": {"body": "> /preflight help"}}, id="quoted"),
        pytest.param({"comment": {"performed_via_github_app": {"id": 1}}}, id="through an app"),
    ],
)
def test_what_is_no_command(stack: Stack, change: dict[str, Any]) -> None:
    """Nothing is queued; with `change` undone the same payload is a command."""
    stack.serve()
    comment = {
        "id": 1,
        "node_id": "IC_1",
        "body": "/preflight help",
        "user": {"login": "dana", "type": "User"},
        "performed_via_github_app": None,
    }
    payload: dict[str, Any] = {
        "action": "created",
        "issue": {"number": 1, "state": "open", "pull_request": {"url": "x"}},
        "comment": comment,
        "repository": {"id": 1, "full_name": stack.repo},
        "installation": {"id": 2},
    }
    broken = {**payload, **{key: _merged(payload[key], part) for key, part in change.items()}}
    _send(stack, "issue_comment", broken)
    assert stack.client.llen("rq:queue:preflight-fast") == 0
    _send(stack, "issue_comment", payload)
    assert stack.client.llen("rq:queue:preflight-fast") == 1


def _merged(old: Any, new: Any) -> Any:
    return {**old, **new} if isinstance(old, dict) else new


def test_three_commands_in_one_comment_get_one_answer(busy: Stack) -> None:
    number = busy.open_pull()
    _settled(busy, number)
    body = "/preflight help\n/preflight estimate A100\n/preflight help\n"
    where = f"/repos/{busy.repo}/pulls/{number}/comments"
    comment = busy.control("POST", where, {"user": "dana", "body": body})
    marker = f"<!-- preflight:answer={comment['id']} -->"
    wait_for(lambda: _starting(busy, number, marker), 40, "the answer")
    assert len(_starting(busy, number, "<!-- preflight:answer=")) == 1


def _starting(stack: Stack, number: int, marker: str) -> list[str]:
    return [one["body"] for one in stack.show(number)["conversation"] if one["body"].startswith(marker)]
