"""What people decide on a pull request holds on later pushes and through a flushed Redis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from bot.demo import sample
from bot.demo.stack import Stack
from tests.end_to_end.scene import CHECKS, Scene, runs

REASON = "logits are scaled on purpose"


@pytest.fixture
def scene(stack: Stack, tmp_path: Path) -> Scene:
    stack.hub.ask("DELETE", "/faults")
    return Scene.build(stack, tmp_path)


def flush(scene: Scene) -> None:
    """Everything that Redis knew is gone."""
    with redis.Redis.from_url(scene.stack.redis_url) as client:
        client.flushall()


def summary(seen: dict[str, Any]) -> str:
    """The visible part of the one summary."""
    bodies = [one["body"] for one in seen["conversation"] if one["body"].startswith("<!-- preflight:summary -->")]
    assert len(bodies) == 1
    return str(bodies[0]).partition("<!-- preflight:ledger=")[0]


def until(scene: Scene, is_so: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The pull request when both newest checks are concluded and `is_so`."""

    def ready() -> dict[str, Any] | None:
        seen = scene.seen()
        newest = runs(seen)
        is_done = set(newest) == set(CHECKS) and all(run["status"] == "completed" for run in newest.values())
        return seen if is_done and is_so(seen) else None

    try:
        return dict(scene.stack.hub.until(ready, 90, "the decision shows"))
    except Exception as error:
        raise AssertionError(f"{error}\n{scene.stack.diagnosis()}") from error


def comment_on(seen: dict[str, Any], rule: str) -> dict[str, Any]:
    """Our one comment about `rule`."""
    [found] = [item for item in seen["review_comments"] if f"**{rule} " in item["body"]]
    return dict(found)


def test_a_dismissal_and_an_ignore_hold_through_a_flush_and_are_taken_back(scene: Scene) -> None:
    before = scene.open().concluded()
    num_said = len(before["review_comments"])
    assert "only people with write access" in scene.asked("/preflight dismiss PF204 no", "olga")
    assert "is dismissed" in scene.asked(f"/preflight dismiss PF204 {REASON}")
    seen = until(scene, lambda now: REASON in summary(now))
    assert "PF204" not in summary(seen).partition("Decided")[0]
    assert "**Dismissed** by `dana`" in comment_on(seen, "PF204")["body"]

    flush(scene)
    scene.push({"speech/classify.py": "# shifted\n" + sample.CLASSIFY})
    seen = until(scene, lambda now: f"at `{now['pull']['head']['sha'][:12]}`" in summary(now))
    assert len(seen["review_comments"]) == num_said
    assert REASON in summary(seen)
    assert "PF204" not in summary(seen).partition("Decided")[0]
    assert "PF204" not in runs(seen)["preflight/code"]["output"]["summary"]

    thread = comment_on(seen, "PF201")["id"]
    where = scene.in_thread(thread, "/preflight dismiss PF201 the hook clears them", "wanda")
    assert "is dismissed" in scene.answer_to(where)
    for rule in ("PF101", "PF102"):
        assert "is ignored" in scene.asked(f"/preflight ignore {rule} not now")
    seen = until(scene, lambda now: runs(now)["preflight/code"]["conclusion"] == "success")
    assert "**Dismissed** by `wanda`" in comment_on(seen, "PF201")["body"]
    assert "**Ignored** on this pull request by `dana`" in comment_on(seen, "PF102")["body"]

    flush(scene)
    assert "taken back" in scene.asked("/preflight unignore PF102")
    seen = until(scene, lambda now: "PF102" in summary(now).partition("Decided")[0])
    assert comment_on(seen, "PF102")["body"] == comment_on(before, "PF102")["body"]
    ours = [item for item in seen["review_comments"] if "preflight:fingerprint=" in item["body"]]
    assert len(ours) == num_said


def test_an_override_is_somebody_elses_for_one_commit_and_holds_through_a_flush(scene: Scene) -> None:
    seen = scene.open().concluded()
    head = seen["pull"]["head"]["sha"]
    assert runs(seen)["preflight/memory"]["conclusion"] == "failure"
    assert "neither the pull request nor" in scene.asked(f"/preflight override memory {head} measured on the node")
    assert "all 40 digits" in scene.asked(f"/preflight override memory {head[:12]} measured", "wanda")
    assert "not the head" in scene.asked(f"/preflight override memory {'a' * 40} measured", "wanda")
    assert "say why" in scene.asked(f"/preflight override memory {head}", "wanda")
    assert "let" in scene.asked(f"/preflight override memory {head} measured on the node", "wanda")
    seen = until(scene, lambda now: runs(now)["preflight/memory"]["conclusion"] == "success")
    run = runs(seen)["preflight/memory"]
    assert run["external_id"].endswith(":overridden")
    assert run["output"]["title"].startswith("Overridden by wanda: ")
    for word in (head, "wanda", "measured on the node"):
        assert word in run["output"]["summary"]

    flush(scene)
    assert "preflight/memory**: success" in scene.asked("/preflight check")

    scene.push({"notes.txt": "another commit\n"})
    seen = until(scene, lambda now: now["pull"]["head"]["sha"] != head)
    assert runs(seen)["preflight/memory"]["conclusion"] == "failure"
    assert "it does not hold for this one" in summary(seen)
