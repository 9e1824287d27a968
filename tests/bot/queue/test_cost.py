"""What one review costs in requests to GitHub, counted at the hub."""

from __future__ import annotations

from tests.bot.queue.stack import LAUNCH, TRAIN, Stack
from tests.support import wait_for

_MOST = 15
_NUM_FILES = 50


def test_a_review_of_fifty_changed_files(stack: Stack) -> None:
    """Token, early check runs, reading, review, summary and conclusions together."""
    package = {f"pkg/m{i}.py": f"import torch\nfrom pkg import m{(i + 1) % 50}\nA = {i}\n" for i in range(_NUM_FILES)}
    stack.git_main({**package})
    changed = {path: f"{text}x = torch.zeros({i})\n" for i, (path, text) in enumerate(package.items())}
    stack.push("feature", {**changed, "train.py": TRAIN, "train.slurm": LAUNCH})
    stack.hub.service.hub.rows.deliveries.clear()  # the pushes that made all this are no part of the review
    stack.serve()
    stack.work_on(PREFLIGHT_REDELIVERY_SECONDS="0", PREFLIGHT_WATCH_SECONDS="0")  # the patrol is no part of a review
    stack.concluded(stack.open_pull())
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 20, "nothing is open")
    asked = [(one.method, one.path) for one in stack.hub.service.recorder.all()]
    assert any(method == "POST" and path.endswith("/reviews") for method, path in asked)
    assert len(asked) <= _MOST, "\n".join(f"{method} {path}" for method, path in asked)
