"""A signed webhook in, a review and two check runs out; then the ways in which it must not happen twice."""

from __future__ import annotations

from tests.bot.queue.stack import Stack
from tests.support import wait_for


def test_webhook_to_check_runs_and_a_redelivery_adds_nothing(stack: Stack) -> None:
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    runs = stack.concluded(number)
    assert {run["name"] for run in runs} == {"preflight/code", "preflight/memory"}
    assert all(run["external_id"].count(":") == 4 and not run["external_id"].endswith(":") for run in runs)
    before = stack.show(number)
    delivery = stack.control("GET", "/deliveries")[-1]
    stack.control("POST", f"/deliveries/{delivery['id']}/redeliver")
    wait_for(lambda: stack.control("GET", "/deliveries")[-1]["redelivery"], 10, "the redelivery arrives")
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 10, "nothing is open")
    after = stack.show(number)
    for what in ("reviews", "review_comments", "conversation", "check_runs"):
        assert len(after[what]) == len(before[what]), what
