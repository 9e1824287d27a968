"""Events that are no push: drafts, merge queues, owners who change an installation, commits that are not there yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.demo.stack import Stack
from bot.store import connect
from tests.end_to_end.scene import CHECKS, Scene, findings, runs
from tests.end_to_end.test_review import EXPECTED


@pytest.fixture
def scene(stack: Stack, tmp_path: Path) -> Scene:
    stack.hub.ask("DELETE", "/faults")
    return Scene.build(stack, tmp_path)


def ids(seen: dict[str, Any], *parts: str) -> list[int]:
    return [item["id"] for part in parts for item in seen[part]]


def test_a_draft_is_left_alone_from_the_moment_it_is_one(scene: Scene) -> None:
    scene.fault(kind="delay", path="/pulls/1/files", seconds=4.0)
    scene.open()
    scene.stack.hub.until(lambda: len(scene.seen()["check_runs"]) == 2, 60, "the review begins")
    scene.state("converted_to_draft")
    seen = scene.concluded()
    assert {(run["conclusion"], run["output"]["title"][:5]) for run in seen["check_runs"]} == {("skipped", "Draft")}
    assert not seen["reviews"]
    scene.state("ready_for_review")
    scene.stack.hub.until(lambda: scene.seen()["reviews"], 60, "the review of what is ready")
    before = scene.concluded()
    assert findings(before) >= EXPECTED
    scene.state("converted_to_draft")
    scene.asked("/preflight help")  # the event before it was dealt with: it came first, and takes less
    after = scene.seen()
    assert runs(after) == runs(before)
    assert ids(after, "reviews", "review_comments") == ids(before, "reviews", "review_comments")


def test_a_merge_queue_is_told_what_the_pull_request_got(scene: Scene) -> None:
    scene.fault(kind="status", method="POST", path="/check-runs$", status=422, body={"message": "No commit found"})
    seen = scene.open().concluded()  # although GitHub did not show the commit at first
    where = f"/repos/{scene.name}/pulls/{scene.number}/queue"
    sha = scene.stack.hub.post(where, user="dana")["sha"]
    group = _on(scene, sha, 2)
    own = runs(seen)
    assert {name: run["conclusion"] for name, run in group.items()} == {
        name: own[name]["conclusion"] for name in CHECKS
    }
    assert group["preflight/memory"]["conclusion"] == "failure"
    assert group["preflight/memory"]["external_id"].endswith(f":0:{sha}:0:exceeds")
    scene.stack.hub.post(f"/check-runs/{group['preflight/code']['id']}/rerun", user="dana")
    again = _on(scene, sha, 4)
    assert {run["status"] for run in again.values()} == {"completed"}


def _on(scene: Scene, sha: str, count: int) -> dict[str, Any]:
    """The newest runs on a commit once there are `count`."""

    def found() -> list[Any] | None:
        there = list(scene.stack.hub.ask("GET", f"/repos/{scene.name}/commits/{sha}/check-runs"))
        return there if len(there) >= count else None

    return {run["name"]: run for run in scene.stack.hub.until(found, 60, "the checks of the group")}


def test_a_changed_installation_forgets_its_tokens_and_works_again(scene: Scene) -> None:
    scene.open().concluded()
    client = connect(scene.stack.redis_url)

    def tokens() -> list[bytes]:
        return list(client.scan_iter(f"*:token:{scene.installation}:*"))

    assert tokens()
    scene.stack.hub.post(f"/installations/{scene.installation}/suspended", suspended=True)
    scene.stack.hub.until(lambda: not tokens(), 60, "the tokens are gone")
    scene.push({"README.md": "# trainer, while suspended\n"})
    scene.stack.hub.post(f"/installations/{scene.installation}/suspended", suspended=False)
    scene.push({"README.md": "# trainer, again\n"})
    assert runs(scene.concluded())["preflight/memory"]["conclusion"] == "failure"
    client.close()
