"""SIGTERM in the middle of the work: what was begun is finished or done again, and nothing hangs."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
import requests

from bot.localhub.faults import Fault
from tests.bot.queue.stack import Stack
from tests.support import wait_for


def _in_a_review(stack: Stack, seconds: float) -> tuple[int, Fault]:
    """A pull request whose review is at GitHub for so long: its number, and the slow answer."""
    slow = stack.hub.service.faults.add(Fault(kind="delay", method="POST", path="/reviews$", seconds=seconds))
    number = stack.open_pull()
    wait_for(lambda: slow.hits, 90, "the review is being posted")
    return number, slow


def _said_once(stack: Stack, number: int) -> None:
    shown = stack.show(number)
    assert [run["status"] for run in shown["check_runs"]] == ["completed"] * len(shown["check_runs"])
    assert {run["conclusion"] for run in shown["check_runs"]} == {"neutral"}
    assert len(shown["reviews"]) == 1
    marks = [comment["body"].partition("\n")[0] for comment in shown["review_comments"]]
    assert len(marks) == len(set(marks)) > 0


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(seconds)


def test_a_worker_that_is_asked_to_end_finishes_its_review(stack: Stack) -> None:
    receiver, worker = stack.serve(), stack.work_on()
    number, _ = _in_a_review(stack, 4.0)
    assert _ended(receiver, 30) == 0
    assert _ended(worker, 60) == 0
    assert not stack.client.zcard("preflight:reviews"), "nothing is left to do"
    _said_once(stack, number)


def test_a_review_that_takes_too_long_to_end_is_done_by_the_next_worker(stack: Stack) -> None:
    stack.serve()
    worker = stack.work_on(PREFLIGHT_STOP_SECONDS="1")
    number, _ = _in_a_review(stack, 15.0)
    assert _ended(worker, 30) == 0
    assert {run["status"] for run in stack.show(number)["check_runs"]} == {"in_progress"}
    stack.work_on()
    stack.concluded(number)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 90, "nothing is open")
    _said_once(stack, number)


def test_a_receiver_is_first_not_ready_and_then_gone(stack: Stack, tmp_path: Path) -> None:
    receiver = stack.start("serve", "--bind", stack.address, "--processes", "2", "--drain", "3", **stack.environment)
    url = f"http://{stack.address}"
    stack.work_on()
    wait_for(lambda: _status(f"{url}/readyz") == 200, 60, "it is ready")
    receiver.send_signal(signal.SIGTERM)
    wait_for(lambda: _status(f"{url}/readyz") == 503, 2, "it is not ready any more")
    assert requests.get(f"{url}/readyz", timeout=2).json() == {"status": "ending"}
    assert requests.get(f"{url}/healthz", timeout=2).status_code == 200
    number = stack.open_pull()
    assert receiver.wait(30) == 0
    assert _status(f"{url}/healthz") == 0
    stack.concluded(number)


@pytest.mark.parametrize("body", [b"{", b"x" * 400_000], ids=["short", "long"])
def test_a_request_that_is_under_way_gets_its_answer(stack: Stack, body: bytes) -> None:
    """Half of the body before the signal, the rest after it."""
    import http.client

    receiver = stack.serve()
    host, _, port = stack.address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.putrequest("POST", "/webhook")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(2 * len(body)))
    connection.endheaders(body)
    time.sleep(0.5)
    receiver.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    connection.send(body)
    assert connection.getresponse().status == 401
    connection.close()
    assert receiver.wait(30) == 0


def _status(url: str) -> int:
    """0 where nobody answers."""
    try:
        return requests.get(url, timeout=2).status_code
    except requests.RequestException:
        return 0
