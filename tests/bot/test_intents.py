"""Payloads as GitHub sends them, and as it does not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from bot import deliveries, intents
from bot.errors import InputError
from bot.intents import (
    CheckPush,
    ClosePull,
    DropConfig,
    DropTokens,
    Ignore,
    MergeGroup,
    PressButton,
    Rerun,
    ReviewPull,
    RunCommand,
)

SHA = "a" * 40
PLACE: dict[str, Any] = {
    "installation": {"id": 7},
    "repository": {"id": 9, "full_name": "o/r", "default_branch": "main"},
    "sender": {"login": "s"},
}


def pull(action: str, **changes: Any) -> dict[str, Any]:
    body = {"head": {"sha": SHA, "repo": None}, "state": "open", "draft": False, "merged": False}
    return {"action": action, "number": 3, "pull_request": body, **PLACE, **changes}


def pressed(identifier: str) -> dict[str, Any]:
    run = {"id": 4, "name": "preflight/code", "head_sha": SHA, "external_id": "x", "app": {"id": 1}}
    sender = {"login": "ann", "type": "User"}
    action = {"identifier": identifier}
    return {"action": "requested_action", "check_run": run, "requested_action": action, **PLACE, "sender": sender}


def line_comment(body: str, **changes: Any) -> dict[str, Any]:
    written = {"id": 6, "node_id": "PRRC_x", "body": body, "user": {"login": "ann", "type": "User"}, **changes}
    return {"action": "created", "pull_request": {"number": 3, "state": "open"}, "comment": written, **PLACE}


def comment(body: str, **changes: Any) -> dict[str, Any]:
    written = {"id": 5, "node_id": "IC_x", "body": body, "user": {"login": "ann", "type": "User"}}
    issue = {"number": 3, "state": "open", "pull_request": {"url": "x"}}
    return {"action": "created", "issue": issue, "comment": written, **PLACE, **changes}


@pytest.mark.parametrize("action", ["opened", "reopened", "ready_for_review", "synchronize"])
def test_a_new_head_is_reviewed_even_when_the_fork_is_gone(action: str) -> None:
    expected = ReviewPull(installation_id=7, repo_id=9, full_name="o/r", number=3, head_sha=SHA, reason=action)
    assert expected == deliveries.read("pull_request", pull(action))


CASES: list[tuple[str, dict[str, Any], type[Any]]] = [
    ("pull_request", pull("edited", changes={"base": {"ref": {"from": "x"}}}), ReviewPull),
    ("pull_request", pull("edited", changes={"title": {"from": "x"}}), Ignore),
    ("pull_request", pull("closed"), ClosePull),
    ("pull_request", pull("stacked"), Ignore),
    ("issue_comment", comment("/preflight estimate A100"), RunCommand),
    ("issue_comment", comment("nice"), Ignore),
    ("pull_request", pull("converted_to_draft"), ClosePull),
    ("check_run", pressed("fix"), PressButton),
    ("check_run", pressed("format-the-disk"), Ignore),
    ("check_run", {**pressed("fix"), "sender": {"login": "bot", "type": "Bot"}}, Ignore),
    ("pull_request_review_comment", {"action": "edited"}, Ignore),
    ("pull_request_review_comment", line_comment("nice"), Ignore),
    ("pull_request_review_comment", line_comment("/preflight explain"), RunCommand),
    ("issue_comment", comment("/preflight help", action="edited"), Ignore),
    ("issue_comment", comment("/preflight help", issue={"number": 3, "state": "open"}), Ignore),
    ("check_run", {"action": "created", **PLACE}, Ignore),
    ("check_suite", {"action": "requested", **PLACE}, Ignore),
    ("check_suite", {"action": "rerequested", "check_suite": {"head_sha": SHA, "pull_requests": []}, **PLACE}, Rerun),
    (
        "merge_group",
        {"action": "checks_requested", "merge_group": {"head_sha": SHA, "base_sha": SHA}, **PLACE},
        MergeGroup,
    ),
    ("merge_group", {"action": "destroyed", **PLACE}, Ignore),
    ("installation", {"action": "suspend", "installation": {"id": 1}}, DropTokens),
    ("push", {"ref": "refs/heads/main", "after": SHA, "deleted": False, **PLACE}, CheckPush),
    ("push", {"ref": "refs/heads/main", "after": "0" * 40, "deleted": True, **PLACE}, DropConfig),
    ("push", {"ref": "refs/heads/feature", "after": SHA, "deleted": False, **PLACE}, DropConfig),
    ("push", {"ref": "refs/tags/v1", **PLACE}, Ignore),
    ("ping", {"zen": "x"}, Ignore),
    ("star", {}, Ignore),
]


@pytest.mark.parametrize(("event", "payload", "kind"), CASES)
def test_events_become_intents_that_survive_json(event: str, payload: dict[str, Any], kind: type[Any]) -> None:
    intent = deliveries.read(event, payload)
    assert kind is type(intent)
    assert intent == intents.from_json(json.loads(json.dumps(intents.to_json(intent))))


def test_only_the_command_line_of_a_comment_travels() -> None:
    intent = deliveries.read("issue_comment", comment("secret words\r\n\r\n/preflight estimate A100 \r\nmore"))
    assert isinstance(intent, RunCommand)
    assert intent.body == "/preflight estimate A100"


def test_a_command_in_a_thread_knows_where_the_thread_begins() -> None:
    first = deliveries.read("pull_request_review_comment", line_comment("/preflight help"))
    reply = deliveries.read("pull_request_review_comment", line_comment("/preflight help", in_reply_to_id=4))
    assert isinstance(first, RunCommand)
    assert isinstance(reply, RunCommand)
    assert (first.thread, reply.thread, reply.comment_id) == (6, 4, 6)


def test_a_job_that_an_older_version_queued_still_runs() -> None:
    document = intents.to_json(deliveries.read("issue_comment", comment("/preflight help")))
    assert document.pop("thread") == 0
    assert intents.from_json(document) == deliveries.read("issue_comment", comment("/preflight help"))


def test_bots_give_no_commands() -> None:
    payload = comment("/preflight help")
    payload["comment"]["user"]["type"] = "Bot"
    assert isinstance(deliveries.read("issue_comment", payload), Ignore)


def test_a_rerun_of_another_apps_check_is_ignored() -> None:
    run = {"id": 4, "name": "preflight/code", "head_sha": SHA, "external_id": "x", "app": {"id": 1}}
    payload = {"action": "rerequested", "check_run": run, **PLACE}
    assert isinstance(deliveries.read("check_run", payload, app_id=1), Rerun)
    assert isinstance(deliveries.read("check_run", payload, app_id=2), Ignore)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("number", "3"),
        ("number", True),
        ("pull_request", []),
        ("pull_request.head", None),
        ("pull_request.head.sha", "abc"),
        ("repository.full_name", "a/b/c"),
        ("repository.full_name", "../b"),
        ("repository.full_name", "a/.."),
        ("installation", None),
    ],
)
def test_a_malformed_payload_names_the_key(path: str, value: object) -> None:
    payload = copy.deepcopy(pull("opened"))
    *way, last = path.split(".")
    place = payload
    for key in way:
        place = place[key]
    place[last] = value
    with pytest.raises(InputError, match=path.split(".")[0]):
        deliveries.read("pull_request", payload)


_ODD: list[Any] = [None, [], {}, "", -1, 1 << 70, 1.5, True, "x" * 10_000, "\ud800", [[[]]], {"a": {}}, "\x00", "a\nb"]


def _places(document: dict[str, Any], way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in document.items():
        yield (*way, key)
        if isinstance(value, dict):
            yield from _places(value, (*way, key))


@pytest.mark.parametrize(("event", "payload", "kind"), CASES)
def test_whatever_stands_in_a_payload_it_is_an_intent_or_an_input_error(
    event: str, payload: dict[str, Any], kind: type[Any]
) -> None:
    for *way, last in _places(payload):
        for odd in _ODD:
            changed = copy.deepcopy(payload)
            place = changed
            for key in way:
                place = place[key]
            place[last] = copy.deepcopy(odd)
            try:
                intent = deliveries.read(event, json.loads(json.dumps(changed)), app_id=1)
            except InputError:
                continue
            assert intent == intents.from_json(json.loads(json.dumps(intents.to_json(intent)))), (way, last, odd)
    assert kind is type(deliveries.read(event, payload))


def test_a_job_that_we_did_not_write_is_refused() -> None:
    good = intents.to_json(
        ClosePull(installation_id=1, repo_id=1, full_name="o/r", number=1, head_sha=SHA, merged=True)
    )
    for bad in ({"kind": "os.system"}, {**good, "more": 1}, {**good, "number": "1"}, {}):
        with pytest.raises(InputError):
            intents.from_json(bad)
