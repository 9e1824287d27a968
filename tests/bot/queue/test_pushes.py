"""Newer pushes, closed and draft pull requests, re-runs and commands, through the whole stack."""

from __future__ import annotations

import requests

from bot.localhub.faults import Fault
from tests.bot.queue.stack import TRAIN, Stack
from tests.support import wait_for


def test_a_newer_push_cancels_the_older_review_and_repeats_no_comment(stack: Stack) -> None:
    stack.serve()
    stack.work_on(2)
    number = stack.open_pull()
    stack.concluded(number)
    first = stack.show(number)
    old_head = first["pull"]["head"]["sha"]
    slow = stack.hub.service.faults.add(Fault(kind="delay", method="GET", path=r"/compare/", seconds=3))
    middle = stack.push("feature", {"notes.txt": "one\n"})
    wait_for(lambda: slow.hits, 30, "the second review runs")
    stack.push("feature", {"train.py": TRAIN.replace("losses.append(loss)", "losses.append(loss.item())")})
    stack.concluded(number)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 30, "nothing is open")
    hub = stack.hub.service.hub
    runs = hub.runs_on(hub.repository(*stack.repo.split("/")), middle)
    assert runs
    assert {run.conclusion for run in runs} == {"cancelled"}
    last = stack.show(number)
    assert last["pull"]["head"]["sha"] not in {old_head, middle}
    bodies = [comment["body"] for comment in last["review_comments"]]
    assert len(bodies) == len(set(bodies)) == len(first["review_comments"])
    assert len([one for one in last["conversation"] if one["user"]["login"] == "preflight[bot]"]) <= 1


def test_draft_is_skipped_and_close_concludes(stack: Stack) -> None:
    stack.serve()
    stack.work_on()
    number = stack.open_pull(draft=True)
    assert {run["conclusion"] for run in stack.concluded(number)} == {"skipped"}
    slow = stack.hub.service.faults.add(Fault(kind="delay", method="GET", path=r"/compare/", seconds=3))
    stack.control("POST", f"/repos/{stack.repo}/pulls/{number}/state", {"action": "ready_for_review", "user": "dana"})
    wait_for(lambda: slow.hits, 30, "the review runs")
    stack.control("POST", f"/repos/{stack.repo}/pulls/{number}/state", {"action": "closed", "user": "dana"})
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 30, "nothing is open")
    shown = stack.show(number)
    assert all(run["status"] == "completed" for run in shown["check_runs"])
    assert not shown["reviews"]


def test_rerun_renews_both_checks(stack: Stack) -> None:
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    runs = stack.concluded(number)
    stack.control("POST", f"/check-runs/{runs[0]['id']}/rerun", {"user": "dana"})
    wait_for(lambda: any(":2:" in run["external_id"][-20:] for run in stack.concluded(number)), 30, "a generation 2")
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 30, "nothing is open")
    assert len(stack.show(number)["reviews"]) <= 1


def test_commands_are_answered_once_and_only_for_those_who_may(stack: Stack) -> None:
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    stack.concluded(number)
    where = f"/repos/{stack.repo}/pulls/{number}/comments"
    for user, body in (("dana", "/preflight help"), ("rita", "/preflight help"), ("dana", "/preflight estimte")):
        comment = stack.control("POST", where, {"user": user, "body": body})
        marker = f"<!-- preflight:answer={comment['id']} -->"
        wait_for(lambda: _answers(stack, number, marker), 40, f"{user}: {body}")  # noqa: B023  called at once
        [answer] = _answers(stack, number, marker)
        assert ("only the author" in answer) == (user == "rita")
    delivery = next(one for one in stack.control("GET", "/deliveries") if one["event"] == "issue_comment")
    stack.control("POST", f"/deliveries/{delivery['id']}/redeliver")
    wait_for(lambda: stack.control("GET", "/deliveries")[-1]["redelivery"], 10, "the redelivery arrives")
    assert len(_answers(stack, number, "preflight:answer=")) == 3
    health = requests.get(f"http://{stack.address}/readyz", timeout=5)
    assert (health.status_code, health.json()["workers"]) == (200, 1)


def _answers(stack: Stack, number: int, marker: str) -> list[str]:
    return [str(one["body"]) for one in stack.show(number)["conversation"] if marker in one["body"]]
