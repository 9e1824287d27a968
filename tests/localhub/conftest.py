"""A hub per test, with one pull request open; all that crossed it must fit GitHub's description."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.localhub.server import Server
from tests.contract import github
from tests.localhub.world import World, build


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Server(tmp_path / "hub") as server:
        yield build(server, tmp_path)
        faults = [fault for fault in crossed(server) if not fault.startswith("not described")]
        assert not faults


def crossed(server: Server) -> list[str]:
    """What GitHub's description finds wrong with everything that crossed the hub."""
    faults = []
    for one in server.service.recorder.all():
        if not one.is_fault:
            faults += github().check(one.method, one.path, one.request, one.status, one.response)
    for delivery in server.service.hub.rows.deliveries.values():
        faults += github().check_webhook(delivery.event, delivery.action, delivery.payload)
    return faults
