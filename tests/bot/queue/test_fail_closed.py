"""`on_failure: failure`: an analysis that dies blocks, as the base branch asked; otherwise it does not."""

from __future__ import annotations

from tests.bot.queue.stack import TRAIN, Stack
from tests.support import wait_for


def _after(stack: Stack, number: int) -> set[str]:
    stack.concluded(number)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 60, "nothing is open")
    return {run["conclusion"] for run in stack.show(number)["check_runs"]}


def test_an_analysis_that_dies_blocks_where_it_is_asked_for(stack: Stack) -> None:
    stack.git_main({".github/preflight.yml": "on_failure: failure\n"})
    stack.push("feature", {"train.py": TRAIN})
    stack.serve()
    stack.work_on(PREFLIGHT_ANALYSIS_TIMEOUT="0.01")
    number = stack.open_pull()
    assert _after(stack, number) == {"failure"}
    assert "says nothing about the code" in stack.show(number)["check_runs"][0]["output"]["summary"]

    stack.git_main({".github/preflight.yml": "on_failure: neutral\n"})
    stack.push("feature", {"train.py": f"{TRAIN}# again\n"})
    assert _after(stack, number) == {"neutral"}
