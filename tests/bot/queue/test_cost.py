"""What one review costs in requests to GitHub, counted at the hub."""

from __future__ import annotations

from bot.localhub.recorder import Exchange
from tests.bot.queue.stack import LAUNCH, TRAIN, Stack
from tests.support import wait_for

_COLD, _PUSH, _WARM = 15, 8, 8
"""The first review of a pull request, that of a later push to it, and the same commit once more."""
_NUM_FILES = 50
_NO_PATROL = {"PREFLIGHT_REDELIVERY_SECONDS": "0", "PREFLIGHT_WATCH_SECONDS": "0"}
"""It looks at all repositories beside the reviews, at a rate of its own."""


def test_a_review_of_fifty_changed_files(stack: Stack) -> None:
    """Token, early check runs, reading, review, summary and conclusions together; then a push, and a re-run."""
    package = {f"pkg/m{i}.py": f"import torch\nfrom pkg import m{(i + 1) % 50}\nA = {i}\n" for i in range(_NUM_FILES)}
    stack.git_main({**package})
    changed = {path: f"{text}x = torch.zeros({i})\n" for i, (path, text) in enumerate(package.items())}
    stack.push("feature", {**changed, "train.py": TRAIN, "train.slurm": LAUNCH})
    stack.serve()
    stack.environment |= _NO_PATROL
    stack.work_on()
    number = stack.open_pull()
    cold = _review(stack, number)
    assert any(one.method == "POST" and one.path.endswith("/reviews") for one in cold)
    assert len(cold) <= _COLD, _listed(cold)
    stack.hub.service.recorder.clear()
    stack.push("feature", {"train.py": TRAIN + "\n# again\n"})
    pushed = _review(stack, number)
    assert len(pushed) <= _PUSH, _listed(pushed)
    stack.hub.service.recorder.clear()
    stack.control("POST", f"/check-runs/{stack.show(number)['check_runs'][-1]['id']}/rerun", {"user": "dana"})
    wait_for(lambda: len(stack.show(number)["check_runs"]) > 2, 60, "the re-run begins")
    again = _review(stack, number)
    assert len(again) <= _WARM, _listed(again)


def _review(stack: Stack, number: int) -> list[Exchange]:
    stack.concluded(number)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 60, "nothing is open")
    return stack.hub.service.recorder.all()


def _listed(exchanges: list[Exchange]) -> str:
    return "\n".join(f"{one.method} {one.path}" for one in exchanges)
