"""What one review costs in requests to GitHub, counted at the hub."""

from __future__ import annotations

from tests.bot.queue.stack import LAUNCH, TRAIN, Stack
from tests.support import wait_for

_COLD, _PUSH, _AGAIN = 15, 12, 8
_NUM_FILES = 50


def _asked(stack: Stack, most: int, since: int = 0) -> int:
    """The number of requests so far; those after the first `since` are at most `most`."""
    asked = [(one.method, one.path) for one in stack.hub.service.recorder.all()]
    assert len(asked) - since <= most, "\n".join(f"{method} {path}" for method, path in asked[since:])
    return len(asked)


def test_a_review_of_fifty_changed_files(stack: Stack) -> None:
    """Token, early check runs, reading, review, summary and conclusions together: the first time, after a push of one
    more commit, and once more at the same head."""
    package = {f"pkg/m{i}.py": f"import torch\nfrom pkg import m{(i + 1) % 50}\nA = {i}\n" for i in range(_NUM_FILES)}
    stack.git_main({**package})
    changed = {path: f"{text}x = torch.zeros({i})\n" for i, (path, text) in enumerate(package.items())}
    stack.push("feature", {**changed, "train.py": TRAIN, "train.slurm": LAUNCH})
    stack.hub.service.hub.rows.deliveries.clear()  # the pushes that made all this are no part of the review
    stack.serve()
    stack.work_on(PREFLIGHT_REDELIVERY_SECONDS="0", PREFLIGHT_WATCH_SECONDS="0")  # the patrol is no part of a review
    number = stack.open_pull()
    stack.concluded(number)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 20, "nothing is open")
    assert any(one.method == "POST" and one.path.endswith("/reviews") for one in stack.hub.service.recorder.all())
    first = _asked(stack, _COLD)

    stack.push("feature", {"pkg/m1.py": "import torch\n", "pkg/m2.py": "import torch\nB = 2\n"})
    runs = stack.concluded(number)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 60, "nothing is open")
    second = _asked(stack, _PUSH, first)

    stack.control("POST", f"/check-runs/{runs[0]['id']}/rerun", {"user": "dana"})
    stack.concluded(number, count=4)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 60, "nothing is open")
    third = _asked(stack, _AGAIN, second)
    print(f"{first} cold, {second - first} after a push, {third - second} again")
