"""Reviews whose job died at an awkward moment."""

from __future__ import annotations

import time

from bot.core.external_id import external_id
from bot.intents import ReviewPull
from bot.localhub.faults import Fault
from bot.queue.endings import CANCELLED, end, ending
from bot.queue.records import Record
from bot.queue.room import open_room
from bot.queue.sweep import Sweeper
from bot.settings import worker_settings
from tests.bot.queue.stack import Stack


def test_one_refusal_to_list_the_check_runs_leaves_none_of_them_open(stack: Stack) -> None:
    number = stack.open_pull()
    room, hub = open_room(worker_settings(stack.environment)), stack.hub.service.hub
    record = Record(
        installation_id=next(iter(hub.rows.installations)),
        repo_id=next(iter(hub.rows.repositories)),
        full_name=stack.repo,
        number=number,
        head_sha=stack.show(number)["pull"]["head"]["sha"],
        generation=1,
        delivery="d",
        runs={},
        ending=ending(CANCELLED, "Superseded by a newer push"),
    )
    gateway = room.gateway_of(record)
    with gateway.publishing():
        gateway.checks.start(
            "preflight/code", record.head_sha, external_id(record.repo_id, number, record.head_sha, 1), "Reviewing…"
        )
    stack.hub.service.faults.add(Fault(kind="status", method="GET", path="/check-runs$", status=422))
    end(room, gateway, record)
    assert [run["conclusion"] for run in stack.show(number)["check_runs"]] == ["cancelled"]


def test_a_job_that_was_taken_by_a_worker_that_died_right_then_is_queued_again(stack: Stack) -> None:
    """It still says that it is queued, and is in no queue."""
    number = stack.open_pull()
    room, hub = open_room(worker_settings(stack.environment)), stack.hub.service.hub
    repository = next(iter(hub.rows.repositories.values()))
    intent = ReviewPull(
        installation_id=next(iter(hub.rows.installations)),
        repo_id=repository.id,
        full_name=stack.repo,
        number=number,
        head_sha=stack.show(number)["pull"]["head"]["sha"],
        reason="opened",
    )
    first = room.enqueuer.new_review(intent, "d")
    sweeper, later = Sweeper(room), time.time() + 100
    [name] = sweeper.sweep(later)
    assert stack.client.lrange("rq:queue:preflight-fast", 0, -1) == [first.encode()], "it waits: nothing to do"
    stack.client.lpop("rq:queue:preflight-fast")
    assert sweeper.sweep(later + 100) == [name]
    assert stack.client.llen("rq:queue:preflight-fast") == 1
    record = room.records.load(name)
    assert record is not None
    assert record.tries == 1
