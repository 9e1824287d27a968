"""What goes wrong at GitHub on command: renamed repositories, deleted branches, deliveries that are lost or doubled."""

from __future__ import annotations

import time

import pytest
import requests

from bot.localhub import people, webhooks
from bot.localhub.faults import Fault
from bot.localhub.model import Delivery
from bot.localhub.webhooks import Fate
from tests.localhub.world import World
from tests.support import wait_for


def test_a_renamed_repository_redirects_reads_and_writes(world: World) -> None:
    """As GitHub does: 301 with GET, 307 with anything else, by the repository's id."""
    old = f"{world.server.api_url}/repos/{world.repo.full_name}"
    world.server.service.hub.rename(world.repo, "renamed")
    headers = {"Authorization": f"Bearer {world.token()}"}
    read = requests.get(f"{old}/pulls/1", headers=headers, allow_redirects=False, timeout=10)
    body = {"body": "x"}
    written = requests.post(f"{old}/issues/1/comments", json=body, headers=headers, allow_redirects=False, timeout=10)
    assert (read.status_code, written.status_code) == (301, 307)
    assert read.headers["Location"] == f"{world.server.api_url}/repositories/{world.repo.id}/pulls/1"
    assert requests.get(read.headers["Location"], headers=headers, timeout=10).status_code == 200
    assert not world.server.service.hub.conversation_of(world.pull)


def test_a_deleted_branch_closes_its_pull_request(world: World) -> None:
    people.delete_branch(world.server.service, world.repo, "feature", world.pull.author)
    assert world.pull.state == "closed"
    assert world.call("GET", f"/git/trees/{world.pull.head_sha}").status_code == 200, "its commits stay readable"


@pytest.mark.parametrize(("fate", "attempts"), [("lose", 0), ("fail", 0), ("late", 1), ("twice", 2)])
def test_what_may_become_of_a_delivery(
    world: World, fate: Fate, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher, rows = world.server.service.dispatcher, world.server.service.hub.rows.deliveries
    dispatcher.wait_idle()
    rows.clear()
    tried: list[str] = []

    def attempt(session: requests.Session, delivery: Delivery) -> None:
        tried.append(delivery.guid)
        delivery.status, delivery.status_code = "OK", 202

    monkeypatch.setattr(webhooks, "attempt", attempt)
    dispatcher.mischief = lambda delivery: fate
    people.change_state(world.server.service, world.pull, "closed", world.pull.author)
    wait_for(lambda: len(tried) >= attempts, 10, "the attempts")
    dispatcher.wait_idle()
    assert len(tried) == attempts
    assert len(set(tried)) <= 1
    assert [one.status_code for one in rows.values()] == {"lose": [], "fail": [502]}.get(fate, [202])


def test_an_answer_that_comes_late_and_an_action_in_between(world: World) -> None:
    """``call`` acts on whoever asks, before or after what it asked for was done."""
    ports: list[tuple[int, int]] = []

    def note(port: int) -> None:
        ports.append((port, len(world.server.service.hub.conversation_of(world.pull))))

    faults = world.server.service.faults
    for perform in (False, True):
        faults.add(Fault(kind="call", method="POST", path="/comments$", perform=perform, action=note))
    for _ in range(2):
        assert world.call("POST", "/issues/1/comments", {"body": "x"}).status_code == 201
    assert [count for _, count in ports] == [0, 2]
    assert all(port > 0 for port, _ in ports)
    faults.add(Fault(kind="late", method="POST", path="/comments$", seconds=0.5))
    start = time.monotonic()
    world.call("POST", "/issues/1/comments", {"body": "y"})
    assert time.monotonic() - start >= 0.5
