"""Every slash command through the whole stack: who may, what happens, and one answer each time."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from bot.demo import sample
from bot.demo.stack import Stack
from tests.end_to_end.scene import Scene, findings, runs
from tests.end_to_end.test_review import EXPECTED


@pytest.fixture
def scene(stack: Stack, tmp_path: Path) -> Scene:
    stack.hub.ask("DELETE", "/faults")
    return Scene.build(stack, tmp_path)


def head_of(scene: Scene) -> str:
    return str(scene.seen()["pull"]["head"]["sha"])


def show(scene: Scene, *args: str) -> str:
    """What git says of the hub's copy."""
    return sample.git(scene.stack.directory / "hub" / f"{scene.name}.git", *args)


def test_check_reviews_again_and_answers_with_what_it_found(scene: Scene) -> None:
    before = scene.open().concluded()
    answer = scene.asked("/preflight check")
    assert f"Reviewed `{head_of(scene)[:12]}`" in answer
    assert "preflight/code" in answer
    assert "PF201" in answer
    assert "preflight/memory**: failure" in answer
    after = scene.seen()
    assert [item["id"] for item in after["review_comments"]] == [item["id"] for item in before["review_comments"]]
    assert runs(after)["preflight/code"]["id"] != runs(before)["preflight/code"]["id"]


def test_check_reviews_a_draft(scene: Scene) -> None:
    scene.open(draft=True).concluded()
    assert "PF201" in scene.asked("/preflight check")
    assert findings(scene.seen()) >= EXPECTED


def test_check_that_a_push_overtakes_still_answers(scene: Scene) -> None:
    scene.open().concluded()
    scene.fault(kind="delay", path="/pulls/1/files", seconds=4.0)
    asked = scene.comment("/preflight check", "dana")
    scene.stack.hub.until(lambda: scene.seen()["check_runs"][2:], 60, "the review begins")
    scene.push({"README.md": "# trainer, again\n"})
    assert "newer push" in scene.answer_to(asked)


def test_fix_commits_to_the_branch_once_the_owner_allows_it(scene: Scene) -> None:
    scene.open().concluded()
    old = head_of(scene)
    scene.grant(contents="write")
    answer = scene.asked("/preflight fix")
    new = head_of(scene)
    assert f"Committed [`{new[:12]}`]" in answer
    assert show(scene, "rev-parse", f"{new}^") == old
    assert "losses.append(loss.detach())" in show(scene, "show", f"{new}:speech/classify.py")
    message = show(scene, "log", "-1", "--format=%an%n%B", new)
    assert message.startswith("preflight[bot]\nApply Preflight's safe fixes: ")
    assert "PF101" in message
    scene.concluded()
    left = scene.asked("/preflight fix")
    assert "No safe fix" in left
    assert head_of(scene) == new


def test_fix_hands_out_a_patch_that_git_applies(scene: Scene, tmp_path: Path) -> None:
    scene.open().concluded()
    old = head_of(scene)
    answer = scene.asked("/preflight fix")
    assert "contents: write" in answer
    assert head_of(scene) == old
    patch = re.search(r"(`{3,})diff\n(.*?\n)\1", answer, re.DOTALL)
    assert patch
    clone = tmp_path / "clone"
    sample.git(tmp_path, "clone", "-q", str(scene.stack.directory / "hub" / f"{scene.name}.git"), str(clone))
    sample.git(clone, "checkout", "-q", old)
    subprocess.run(["git", "apply", "--check", "-"], cwd=clone, input=patch[2].encode(), check=True)


def test_fix_never_pushes_over_somebody_and_says_so(scene: Scene) -> None:
    scene.open().concluded()
    scene.grant(contents="write")
    scene.fault(kind="delay", method="POST", path="/git/blobs$", seconds=4.0)
    asked = scene.comment("/preflight fix", "dana")
    scene.stack.hub.until(lambda: _is_fixing(scene), 60, "the fix begins")
    pushed = scene.push({"README.md": "# trainer, again\n"})
    assert "has moved on" in scene.answer_to(asked)
    assert head_of(scene) == pushed


def _is_fixing(scene: Scene) -> bool:
    recorded = scene.stack.hub.ask("GET", "/recording")
    return any(one["path"].startswith(f"/repos/{scene.name}/git/commits") for one in recorded)


def test_fix_whose_answer_was_lost_commits_once(scene: Scene) -> None:
    scene.open().concluded()
    old = head_of(scene)
    scene.grant(contents="write")
    scene.fault(kind="lose", method="PATCH", path="/git/refs/heads/classifier$")
    assert "Committed" in scene.asked("/preflight fix")
    assert show(scene, "rev-parse", f"{head_of(scene)}^") == old


@pytest.mark.parametrize("case", ["protected", "fork"])
def test_fix_says_why_it_may_not_push(scene: Scene, case: str) -> None:
    scene.grant(contents="write")
    if case == "fork":
        scene.stack.hub.post(f"/repos/{scene.name}/forks", user="olga")
        scene.open(head_repo=f"olga/{scene.name.partition('/')[2]}", user="olga").concluded()
    else:
        scene.stack.hub.post(f"/repos/{scene.name}/protected", branch="classifier")
        scene.open().concluded()
    old = head_of(scene)
    answer = scene.asked("/preflight fix")
    assert ("fork" if case == "fork" else "rule violations") in answer
    assert "diff --git" in answer
    assert head_of(scene) == old


def test_fix_and_estimate_are_for_different_people(scene: Scene) -> None:
    """The author may ask; only people with write access may push."""
    scene.open(user="olga").concluded()
    assert "GiB" in scene.asked("/preflight estimate A100 H100 p4d.24xlarge", "olga")
    assert "Sorry @olga, only people with write access" in scene.asked("/preflight fix", "olga")


def test_a_reply_below_a_finding_explains_that_finding(scene: Scene) -> None:
    seen = scene.open().concluded()
    first = next(item for item in seen["review_comments"] if "PF201" in item["body"])
    asked = scene.in_thread(first["id"], "why?\n\n/preflight explain", "dana")
    answer = scene.answer_to(asked)
    assert "<b>PF201</b>" in answer
    reply = next(item for item in scene.seen()["review_comments"] if f"answer={asked} " in item["body"])
    assert reply["in_reply_to_id"] == first["id"]
    assert [item["content"] for item in scene.stack.hub.ask("GET", f"/comments/{asked}/reactions")] == ["eyes"]
