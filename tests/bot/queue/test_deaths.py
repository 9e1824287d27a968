"""``kill -9`` of the worker and its work-horse in the middle of a review: concluded in time, and said once."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from bot.localhub.faults import Fault
from tests.bot.queue.stack import Stack
from tests.support import wait_for


def _worker_and_horse(stack: Stack) -> list[int]:
    [key] = [name for name in stack.client.smembers("rq:workers") if stack.client.exists(name)]
    worker = int(stack.client.hget(key, "pid") or 0)
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(worker)], capture_output=True, text=True, check=False)
    return [worker, *(int(pid) for pid in children.stdout.split())]


@pytest.mark.parametrize("where", [("GET", r"/compare/"), ("PATCH", r"/check-runs/")], ids=["reading", "publishing"])
def test_killed_worker_and_horse(stack: Stack, where: tuple[str, str]) -> None:
    method, path = where
    slow = stack.hub.service.faults.add(Fault(kind="delay", method=method, path=path, seconds=40))
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    wait_for(lambda: slow.hits, 60, "the review hangs at the slow request")
    for pid in _worker_and_horse(stack):
        os.kill(pid, signal.SIGKILL)
    start = time.monotonic()
    runs = stack.concluded(number)
    assert time.monotonic() - start < 120
    shown = stack.show(number)
    assert [run["status"] for run in shown["check_runs"]] == ["completed", "completed"]
    assert {run["name"] for run in runs} == {"preflight/code", "preflight/memory"}
    assert all(":failed" not in run["external_id"] for run in runs), "the review itself was repeated"
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 20, "nothing is open")
    assert len(stack.show(number)["reviews"]) == 1
    places = [(comment["path"], comment["line"], comment["body"]) for comment in shown["review_comments"]]
    assert len(places) == len(set(places))
    assert places
