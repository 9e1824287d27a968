"""Redis hangs or is killed in the middle of a review: the review is made all the same, once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.localhub.faults import Fault
from bot.localhub.server import Server
from bot.redis_server import own_server
from bot.store import connect
from tests.bot.queue.stack import Stack, build_stack
from tests.support import wait_for


@dataclass
class Hurt:
    """A stack with a Redis of its own, and that server's process id."""

    stack: Stack
    pid: int


@pytest.fixture
def hurt(tmp_path: Path, private_key: str, preflight: Callable[..., subprocess.Popen[bytes]]) -> Iterator[Hurt]:
    with own_server(tmp_path / "r") as url, Server(tmp_path / "hub") as hub:
        client = connect(url)
        stack = build_stack(hub, client, url, private_key, tmp_path, preflight)
        yield Hurt(stack, int(client.info("server")["process_id"]))
        client.close()


def test_a_hang_in_the_middle_of_a_review(hurt: Hurt) -> None:
    stack = hurt.stack
    slow = stack.hub.service.faults.add(Fault(kind="delay", method="GET", path=r"/compare/", seconds=2))
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    wait_for(lambda: slow.hits, 60, "the review is at the slow request")
    os.kill(hurt.pid, signal.SIGSTOP)
    time.sleep(9)  # longer than the worker waits for an answer
    os.kill(hurt.pid, signal.SIGCONT)
    runs = stack.concluded(number)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 60, "nothing is open")
    assert {run["name"] for run in runs} == {"preflight/code", "preflight/memory"}
    assert not any(run["external_id"].endswith(":failed") for run in runs)
    shown = stack.show(number)
    assert len(shown["reviews"]) == 1
    assert len(shown["check_runs"]) == 2
