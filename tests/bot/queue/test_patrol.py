"""What never reached us is found on GitHub: failed deliveries, and open pull requests without our check runs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from bot.github.app import AppApi
from bot.localhub.clock import now as hub_now
from bot.queue.open_pulls import OpenPulls
from bot.queue.redeliver import Redelivery
from bot.queue.room import Room, open_room
from bot.settings import worker_settings
from bot.store import DAY
from tests.bot.queue.stack import Stack
from tests.support import wait_for


@pytest.fixture
def room(stack: Stack) -> Room:
    stack.hub.service.dispatcher.wait_idle()
    stack.hub.service.hub.rows.deliveries.clear()  # the pushes that made the repository
    return open_room(worker_settings(stack.environment))


def _api(room: Room) -> AppApi:
    return AppApi(room.settings, room.client, room.keys)


def _quiet(stack: Stack) -> None:
    stack.hub.service.dispatcher.wait_idle()
    wait_for(lambda: all(one["status"] != "pending" for one in _sent(stack)), 10, "deliveries are attempted")


def _sent(stack: Stack) -> list[dict[str, Any]]:
    return [one for one in stack.control("GET", "/deliveries") if one["event"] == "pull_request"]


def _asked(stack: Stack) -> list[str]:
    return [one.path for one in stack.hub.service.recorder.all() if one.path.endswith("/attempts")]


def test_a_failed_delivery_is_asked_for_until_it_arrives(stack: Stack, room: Room) -> None:
    stack.open_pull()
    _quiet(stack)
    patrol, now = Redelivery(room, _api(room)), time.time()
    assert patrol.step(now) == 1, "the receiver was down; a check_suite event of ours is no loss"
    _quiet(stack)
    assert patrol.step(now + 1) == 0, "not again at once"
    stack.serve()
    assert patrol.step(now + 61) == 1
    wait_for(lambda: any(one["status_code"] == 202 for one in _sent(stack)), 10, "it arrived")
    assert patrol.step(now + DAY) == 0, "its claim says that we have it"
    assert room.client.llen("rq:queue:preflight-fast") == 1


def test_one_delivery_is_asked_for_a_few_times_only(stack: Stack, room: Room) -> None:
    stack.open_pull()
    _quiet(stack)
    patrol, now = Redelivery(room, _api(room)), time.time()
    for hours in range(60):
        patrol.step(now + hours * 3_600)
        _quiet(stack)
    assert len(_asked(stack)) == 5


def test_a_long_list_of_failures_is_walked_to_its_end_and_old_ones_are_left(stack: Stack, room: Room) -> None:
    stack.open_pull()
    _quiet(stack)
    rows = stack.hub.service.hub.rows.deliveries
    first = next(one for one in rows.values() if one.event == "pull_request")
    rows.clear()
    for number in range(900):
        guid = f"{number:08d}-0000-0000-0000-000000000000"
        copy = replace(first, id=stack.hub.service.hub.new_id(), guid=guid, status="failed", status_code=502)
        rows[copy.id] = copy
        room.client.set(room.keys.claim(guid), "accepted")
    oldest, wanted = (rows[key] for key in sorted(rows)[:2])
    oldest.delivered_at = hub_now().replace(year=2020)
    room.client.delete(room.keys.claim(oldest.guid), room.keys.claim(wanted.guid))
    patrol, now = Redelivery(room, _api(room)), time.time()
    found = [patrol.step(now + minute) for minute in range(4)]
    assert sum(found) == 1, "the one at the very end, over several looks of four pages"
    assert _asked(stack) == [f"/app/hook/deliveries/{wanted.id}/attempts"]


def test_an_open_pull_request_without_check_runs_is_reviewed_at_the_second_look(stack: Stack, room: Room) -> None:
    number = stack.open_pull()
    patrol, now = OpenPulls(room, _api(room)), time.time()
    assert patrol.step(now) == 0, "its event may still be on the way"
    assert patrol.step(now + 6) == 1
    [name] = room.records.due(now + 3_600)
    assert name.startswith(f"{_repo_id(stack)}-{number}-")
    assert patrol.step(now + 12) == 0, "it is under way"


def test_check_runs_that_nobody_concludes_are_taken_over(stack: Stack, room: Room) -> None:
    """A flush of Redis in the middle of a review leaves no record."""
    stack.open_pull()
    head = stack.show()["pull"]["head"]["sha"]
    hub = stack.hub.service.hub
    installation = next(iter(hub.rows.installations))
    gateway = room.gateway(installation, _repo_id(stack), stack.repo)
    with gateway.publishing():
        run = gateway.checks.start("preflight/code", head, "x", "Reviewing…")
    patrol, now = OpenPulls(room, _api(room)), time.time()
    assert patrol.step(now) + patrol.step(now + 6) == 1
    record = room.records.load(room.records.due(now + 3_600)[0])
    assert record is not None
    assert record.runs == {"preflight/code": run.id}


def test_a_list_that_did_not_change_costs_one_conditional_request(stack: Stack, room: Room) -> None:
    stack.open_pull()
    head = stack.show()["pull"]["head"]["sha"]
    installation = next(iter(stack.hub.service.hub.rows.installations))
    gateway = room.gateway(installation, _repo_id(stack), stack.repo)
    with gateway.publishing():
        for name in ("preflight/code", "preflight/memory"):
            gateway.checks.completed(name, head, "x", "success", "Done", "Done")
    patrol, now = OpenPulls(room, _api(room)), time.time()
    patrol.step(now)
    stack.hub.service.recorder.clear()
    assert patrol.step(now + 901) == 0
    assert [(one.path, one.status) for one in stack.hub.service.recorder.all()] == [(f"/repos/{stack.repo}/pulls", 304)]


def test_an_installation_that_has_to_wait_hides_no_other(stack: Stack, room: Room) -> None:
    stack.open_pull()
    hub = stack.hub.service.hub
    app = next(iter(hub.rows.apps.values()))
    other = hub.install(app, hub.account("other", "Organization"))
    room.client.set(room.keys.pause(other.id), repr(time.time() + 600))
    patrol, now = OpenPulls(room, _api(room)), time.time()
    assert patrol.step(now) + patrol.step(now + 6) == 1


def test_pull_requests_older_than_the_installation_are_left_alone(stack: Stack, room: Room) -> None:
    stack.open_pull()
    for pull in stack.hub.service.hub.rows.issues.values():
        pull.updated_at = pull.updated_at.replace(year=2020)
    patrol, now = OpenPulls(room, _api(room)), time.time()
    assert patrol.step(now) + patrol.step(now + 901) == 0


def _repo_id(stack: Stack) -> int:
    return next(iter(stack.hub.service.hub.rows.repositories))
