"""One real stack for all end-to-end tests: Valkey, gunicorn, workers and the local GitHub as processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.demo.stack import Stack
from tests.contract import github


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    with Stack() as running:
        yield running
        faults = _crossed(running)
    assert faults == []


def _crossed(stack: Stack) -> list[str]:
    """What GitHub's description finds wrong with everything that crossed the hub."""
    faults = set()
    for one in stack.hub.ask("GET", "/recording"):
        if not one["is_fault"] and one["path"] != "/graphql":
            faults.update(github().check(one["method"], one["path"], one["request"], one["status"], one["response"]))
    for one in stack.hub.ask("GET", "/deliveries/payloads"):
        faults.update(github().check_webhook(one["event"], one["action"], one["payload"]))
    return sorted(fault for fault in faults if not fault.startswith("not described"))
