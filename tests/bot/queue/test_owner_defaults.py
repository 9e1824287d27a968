"""The owner's defaults, through the whole stack: what they decide, what they cost, and that a push to them acts."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.bot.queue.stack import Stack
from tests.localhub.world import commit, new_repository
from tests.support import wait_for

_pushes = itertools.count()


def _asked(stack: Stack) -> int:
    """Requests for the owner's repository: a token for it by name."""
    found = (one.request for one in stack.hub.service.recorder.all() if one.path.endswith("/access_tokens"))
    return sum(isinstance(body, dict) and body.get("repositories") == [".github"] for body in found)


def _again(stack: Stack, number: int) -> str:
    """The conclusion of preflight/code after one more push."""
    stack.push("feature", {"notes.txt": f"{next(_pushes)}\n"})
    stack.concluded(number)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 30, "nothing is open")
    (run,) = [run for run in stack.show(number)["check_runs"] if run["name"] == "preflight/code"]
    return str(run["conclusion"])


def test_they_act_cost_nothing_and_follow_a_push(stack: Stack, tmp_path: Path) -> None:
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    stack.concluded(number)
    assert _again(stack, number) == "neutral"
    assert _asked(stack) == 1, "that there is none is remembered"

    owner = new_repository(tmp_path / "owner", {"preflight.yml": "mode:\n  code: block\n  memorry: warn\n"})
    stack.control("POST", "/repos", {"full_name": "acme/.github", "source": str(owner)})
    body = {"branch": "main", "source": str(owner), "ref": "HEAD", "user": "dana"}
    commit(owner, "say more", {"README.md": "ours\n"})
    stack.control("POST", "/repos/acme/.github/push", body)
    wait_for(lambda: not stack.client.keys("preflight:owner-defaults:*"), 30, "the push drops what was remembered")
    assert _again(stack, number) == "failure"
    (run,) = [run for run in stack.show(number)["check_runs"] if run["name"] == "preflight/code"]
    assert "acme/.github/preflight.yml:3" in run["output"]["summary"], "its problems are named where they are"
    assert _again(stack, number) == "failure"
    assert _asked(stack) == 2

    commit(owner, "calm down", {"preflight.yml": "mode: {code: advisory}\n"})
    stack.control("POST", "/repos/acme/.github/push", body)
    wait_for(lambda: not stack.client.keys("preflight:owner-defaults:*"), 30, "the push drops what was remembered")
    assert _again(stack, number) == "neutral"
