"""The main job: a signed webhook in, one review and two concluded check runs out; told once, whatever happens."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bot.demo import sample
from bot.demo.stack import Stack
from tests.end_to_end.scene import CHECKS, Scene, findings, runs


def _line(marked: str, nth: int = 0) -> int:
    """The 1-based line of the sample's script that holds a text."""
    return [number for number, line in enumerate(sample.CLASSIFY.split("\n"), 1) if marked in line][nth]


EXPECTED = {
    ("PF204", "speech/classify.py", _line("criterion(torch.softmax(")),
    ("PF201", "speech/classify.py", _line("optimizer.step()")),
    ("PF101", "speech/classify.py", _line("total_loss += loss")),
    ("PF101", "speech/classify.py", _line("losses.append(loss)")),
    ("PF102", "speech/classify.py", _line("def evaluate(")),  # where its suggestion puts the decorator
}


@pytest.fixture
def scene(stack: Stack, tmp_path: Path) -> Scene:
    stack.hub.ask("DELETE", "/faults")
    return Scene.build(stack, tmp_path)


def _wait_quiet(scene: Scene, seconds: float = 3.0) -> None:
    """Until no request crossed the hub for some seconds."""
    last, since, end = -1, time.monotonic(), time.monotonic() + 60
    while time.monotonic() < end and time.monotonic() - since < seconds:
        size = scene.stack.hub.ask("GET", "/recording/size")["size"]
        if size != last:
            last, since = size, time.monotonic()
        time.sleep(0.2)


def test_the_review_names_the_bugs_and_its_suggestions_cure_them(scene: Scene) -> None:
    seen = scene.open().concluded()
    assert findings(seen) >= EXPECTED
    assert [item["state"] for item in seen["reviews"]] == ["COMMENTED"]
    fixable = [item for item in seen["review_comments"] if "suggestion\n" in item["body"]]
    assert {item["path"] for item in fixable} == {"speech/classify.py"}
    path = f"/repos/{scene.name}/pulls/{scene.number}/suggestions"
    sha = scene.stack.hub.post(path, comment_ids=[item["id"] for item in fixable], user="dana")["sha"]
    hub_copy = scene.stack.directory / "hub" / f"{scene.name}.git"
    text = sample.git(hub_copy, "show", f"{sha}:speech/classify.py") + "\n"
    ast.parse(text)
    assert [found for found in _check(scene, text) if found["severity"] != "note"] == []
    after = scene.concluded()
    assert len(after["review_comments"]) == len(seen["review_comments"])


def _check(scene: Scene, text: str) -> list[Any]:
    """What the command line finds in the script, inside the author's tree."""
    (scene.work / "speech" / "classify.py").write_text(text)
    command = [sys.executable, "-I", "-m", "preflight", "check", "speech/classify.py", "--format", "json"]
    done = subprocess.run(command, cwd=scene.work, capture_output=True, check=False)
    return list(json.loads(done.stdout)["findings"])


def test_memory_fails_with_an_interval_a_reason_and_a_change_that_would_fit(scene: Scene) -> None:
    run = runs(scene.open().concluded())["preflight/memory"]
    assert run["conclusion"] == "failure"
    assert str(run["external_id"]).endswith(":exceeds")
    said = run["output"]["title"] + run["output"]["summary"] + (run["output"]["text"] or "")
    for word in ("A100", "GiB", "slurm/finetune.slurm", "| fits |"):
        assert word in said


def test_a_redelivery_adds_nothing(scene: Scene) -> None:
    before = scene.open().concluded()
    deliveries = scene.stack.hub.ask("GET", "/deliveries")
    opened = [one for one in deliveries if one["event"] == "pull_request" and one["action"] == "opened"][-1]
    scene.stack.hub.post(f"/deliveries/{opened['id']}/redeliver")
    _wait_quiet(scene)
    after = scene.seen()
    for part in ("reviews", "review_comments", "conversation", "check_runs"):
        assert [item["id"] for item in after[part]] == [item["id"] for item in before[part]]


def test_a_second_push_that_fixes_one_bug_repeats_no_comment(scene: Scene) -> None:
    before = scene.open().concluded()
    fixed = sample.CLASSIFY.replace("total_loss += loss\n", "total_loss += loss.item()\n")
    scene.push({"speech/classify.py": "# a new first line\n" + fixed})
    after = scene.concluded()
    assert [item["id"] for item in after["review_comments"]] == [item["id"] for item in before["review_comments"]]
    assert runs(after)["preflight/code"]["conclusion"] == "neutral"


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "method": "POST", "path": "/pulls/1/reviews$", "status": 502, "perform": True},
        {"kind": "lose", "method": "POST", "path": "/pulls/1/reviews$"},
        {"kind": "status", "method": "POST", "path": "/pulls/1/reviews$", "status": 502},
        {"kind": "lose", "method": "POST", "path": "/check-runs$"},
        {
            "kind": "status",
            "path": "/compare/",
            "status": 429,
            "headers": {"Retry-After": "1"},
            "body": {"message": "You have exceeded a secondary rate limit"},
        },
        {
            "kind": "status",
            "path": "/pulls/1/reviews$",
            "method": "POST",
            "status": 403,
            "headers": {"Retry-After": "1"},
            "body": {"message": "You have exceeded a secondary rate limit. Please wait a few minutes"},
        },
        {"kind": "status", "method": "PATCH", "path": "/check-runs/", "status": 502, "perform": True},
    ],
)
def test_a_bad_day_of_github_ends_in_one_review_and_two_conclusions(scene: Scene, fault: dict[str, Any]) -> None:
    scene.fault(**fault)
    seen = scene.open().concluded()
    _wait_quiet(scene)
    seen = scene.seen()
    assert len(seen["reviews"]) == 1
    assert findings(seen) >= EXPECTED
    assert sorted(run["name"] for run in seen["check_runs"]) == sorted(CHECKS)
    annotations = [json.dumps(note, sort_keys=True) for run in seen["check_runs"] for note in run["annotations"]]
    assert len(annotations) == len(set(annotations))


def test_a_newer_push_supersedes_the_older_work(scene: Scene) -> None:
    scene.fault(kind="delay", path="/compare/", seconds=3.0)
    scene.open()
    old = scene.seen()["pull"]["head"]["sha"]
    scene.push({"README.md": "# trainer, again\n"})
    seen = scene.concluded()
    _wait_quiet(scene)
    assert len(scene.seen()["reviews"]) == 1
    assert {item["commit_id"] for item in scene.seen()["reviews"]} == {seen["pull"]["head"]["sha"]}
    exchanges = scene.stack.hub.ask("GET", "/recording")
    last = {}
    for one in exchanges:
        body = one["response"]
        if "/check-runs" in one["path"] and isinstance(body, dict) and body.get("head_sha") == old:
            last[body["id"]] = (body["status"], body["conclusion"])
    assert set(last.values()) <= {("completed", "cancelled")}


def test_a_draft_is_skipped_until_it_is_ready(scene: Scene) -> None:
    seen = scene.open(draft=True).concluded()
    assert {run["conclusion"] for run in seen["check_runs"]} == {"skipped"}
    assert seen["reviews"] == []
    scene.state("ready_for_review")
    scene.stack.hub.until(lambda: scene.seen()["reviews"], 60, "the review of what is ready")
    assert findings(scene.concluded()) >= EXPECTED


def test_a_pull_request_of_a_deleted_fork_is_reviewed(scene: Scene) -> None:
    hub = scene.stack.hub
    fork = hub.post(f"/repos/{scene.name}/forks", user="olga")
    scene.fault(kind="delay", method="GET", path="/pulls/1$", seconds=1.0)
    scene.open(head_repo=fork["full_name"], user="olga")
    hub.ask("DELETE", f"/repos/{scene.name}/pulls/{scene.number}/head")
    assert findings(scene.concluded()) >= EXPECTED


def test_a_command_is_answered_for_its_author_and_refused_politely_for_an_outsider(scene: Scene) -> None:
    scene.open().concluded()
    answer = scene.answer_after(scene.comment("/preflight estimate A100", "dana"))
    assert "A100" in answer
    assert "GiB" in answer
    refused = scene.answer_after(scene.comment("/preflight estimate A100", "mallory"))
    assert "GiB" not in refused
    assert "write" in refused.lower()


def test_the_pull_request_of_the_page_is_readable(scene: Scene) -> None:
    import requests

    scene.open().concluded()
    page = requests.get(f"{scene.stack.hub.url}/{scene.name}/pull/{scene.number}", timeout=20)
    assert page.status_code == 200
    for text in ("Suggested change", "preflight/memory", "losses.append(loss.detach())"):
        assert text in page.text
