"""Every slash command and button through the whole stack: who may, what happens, and one answer each time."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

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


HOSTILE = {
    "a stranger": ("mallory", "/preflight estimate A100"),
    "a long line": ("dana", "/preflight estimate " + "A" * 10_000),
    "many words": ("dana", "/preflight estimate " + "a " * 400),
    "a look-alike": ("dana", "/preflight еstimate A100"),  # its first letter is Cyrillic
    "a turned line": ("dana", "/preflight estimate \u202eA100"),
    "a mention": ("dana", "/preflight explain @everyone"),
    "markup": ("dana", "/preflight `<img src=x>` ![x](http://x.invalid/y) #1"),
    "an open quote": ("dana", "/preflight estimate 'A100"),
    "a path out": ("dana", "/preflight estimate ../../etc/passwd"),
    "a typo": ("dana", "/preflight estmate A100"),
}
SILENT = (
    "```\n/preflight help\n```",
    "> /preflight help",
    "~~~sh\n/preflight help",
    "<!--\n/preflight help\n-->",
    "- /preflight help",
    "please run /preflight help",
    "\u200b/preflight help",
)


def test_what_only_answers_answers_once_and_hostile_words_do_nothing(scene: Scene) -> None:
    scene.fault(kind="lose", method="POST", path="/issues/1/comments$", count=2)
    scene.open()
    silent = [scene.comment(body, "dana") for body in SILENT]
    plain = {
        body: scene.comment(f"{body}\nthanks", "dana")
        for body in (
            "/preflight help",
            "/preflight estimate A100 H100 p4d.24xlarge --micro-batch 1",
            "/preflight fits",
            "/preflight fits aws",
            "/preflight explain PF101 double-softmax",
        )
    }
    hostile = {name: scene.comment(body, user) for name, (user, body) in HOSTILE.items()}
    said = {name: scene.answer_to(asked) for name, asked in {**plain, **hostile}.items()}
    assert all(f"/preflight {name}" in said["/preflight help"] for name in ("check", "fits", "fix", "estimate"))
    estimate = said["/preflight estimate A100 H100 p4d.24xlarge --micro-batch 1"]
    assert all(name in estimate for name in ("slurm/finetune.slurm", "H100", "40GB", "80GB", "p4d.24xlarge"))
    assert "largest micro-batch" in said["/preflight fits"]
    assert "(aws)" in said["/preflight fits aws"]
    assert "<b>PF204</b>" in said["/preflight explain PF101 double-softmax"]
    assert said["a stranger"].startswith("Sorry @mallory")
    assert "/preflight estimate`?" in said["a typo"]
    for name in HOSTILE:
        assert "\u202e" not in said[name], name
        html = MarkdownIt("commonmark").render(said[name])
        outside = re.sub(r"<(code|pre)\b.*?</\1>", "", html, flags=re.DOTALL)
        assert not re.search(r"@(?!mallory)\w|<img|<a |(?<!&)#\d", outside), (name, outside)
    assert not any(scene.answers(asked) for asked in silent)
    assert all(len(scene.answers(asked)) == 1 for asked in [*plain.values(), *hostile.values()])


def test_a_bot_gives_no_commands_and_strangers_are_not_answered_for_ever(scene: Scene) -> None:
    scene.open()
    bot = scene.comment("/preflight help", "mergebot[bot]")
    asked = [scene.comment("/preflight help", "mallory") for _ in range(5)]
    scene.fault(kind="status", path="/collaborators/wanda/permission", status=502, count=5)
    later = scene.comment("/preflight help", "wanda")  # put off until GitHub answers
    scene.answer_to(scene.comment("/preflight help", "dana"))
    assert "/preflight estimate" in scene.answer_to(later)
    scene.stack.hub.until(lambda: sum("-1" in _reactions(scene, one) for one in asked) == 2, 60, "two thumbs down")
    scene.stack.hub.until(lambda: sum(len(scene.answers(one)) for one in asked) == 3, 60, "three refusals")
    assert all("eyes" in _reactions(scene, one) for one in asked)
    assert (scene.answers(bot), _reactions(scene, bot)) == ([], [])


def _reactions(scene: Scene, comment_id: int) -> list[str]:
    found = scene.stack.hub.ask("GET", f"/comments/{comment_id}/reactions")
    return [str(item["content"]) for item in found]


def test_check_reviews_again_and_answers_with_what_it_found(scene: Scene) -> None:
    before = scene.open(draft=True).concluded()
    assert {run["conclusion"] for run in before["check_runs"]} == {"skipped"}
    answer = scene.asked("/preflight check")  # a draft is reviewed when somebody asks
    assert f"Reviewed `{head_of(scene)[:12]}`" in answer
    assert "PF201" in answer
    assert "preflight/memory**: failure" in answer
    first = scene.seen()
    assert findings(first) >= EXPECTED
    assert "no new comments" in scene.asked("/preflight check")
    assert [item["id"] for item in scene.seen()["review_comments"]] == [item["id"] for item in first["review_comments"]]
    scene.fault(kind="delay", path="/compare/", seconds=4.0)
    number = len(scene.seen()["check_runs"])
    asked = scene.comment("/preflight check", "dana")
    scene.stack.hub.until(lambda: scene.seen()["check_runs"][number:], 60, "the review begins")
    scene.push({"README.md": "# trainer, again\n"})
    assert "newer push" in scene.answer_to(asked)
    scene.state("closed")
    closed = {name: scene.comment(f"/preflight {name}", "dana") for name in ("estimate A100", "check", "fix")}
    said = {name: scene.answer_to(asked) for name, asked in closed.items()}
    assert "GiB" in said["estimate A100"]
    assert "is closed" in said["check"]
    assert "is closed" in said["fix"]


def test_fix_commits_to_the_branch_once_the_owner_allows_it(scene: Scene, tmp_path: Path) -> None:
    scene.open()
    old = head_of(scene)
    answer = scene.asked("/preflight fix")
    assert "contents: write" in answer
    assert head_of(scene) == old
    _applies(scene, answer, old, tmp_path)
    scene.grant(contents="write")
    scene.fault(kind="lose", method="PATCH", path="/git/refs/heads/classifier$")
    answer = scene.asked("/preflight fix")
    new = head_of(scene)
    assert f"Committed [`{new[:12]}`]" in answer
    assert show(scene, "rev-parse", f"{new}^") == old
    assert "losses.append(loss.detach())" in show(scene, "show", f"{new}:speech/classify.py")
    message = show(scene, "log", "-1", "--format=%an%n%B", new)
    assert message.startswith("preflight[bot]\nApply Preflight's safe fixes: ")
    assert "PF101" in message
    scene.concluded()
    assert "No safe fix" in scene.asked("/preflight fix")
    assert head_of(scene) == new


def _applies(scene: Scene, answer: str, head: str, tmp_path: Path) -> None:
    """What a person copies out of the answer, given to git."""
    patch = re.search(r"(`{3,})diff\n(.*?\n)\1", answer, re.DOTALL)
    assert patch
    clone = tmp_path / "clone"
    sample.git(tmp_path, "clone", "-q", str(scene.stack.directory / "hub" / f"{scene.name}.git"), str(clone))
    sample.git(clone, "checkout", "-q", head)
    subprocess.run(["git", "apply", "-"], cwd=clone, input=patch[2].encode(), check=True)
    assert "losses.append(loss.detach())" in (clone / "speech" / "classify.py").read_text()


def test_fix_never_pushes_over_somebody_and_says_so(scene: Scene) -> None:
    scene.open()
    scene.grant(contents="write")
    scene.fault(kind="delay", method="POST", path="/git/blobs$", seconds=4.0)
    asked = scene.comment("/preflight fix", "dana")
    scene.stack.hub.until(lambda: _is_fixing(scene), 60, "the fix begins")
    pushed = scene.push({"README.md": "# trainer, again\n"})
    assert "has moved on" in scene.answer_to(asked)
    assert head_of(scene) == pushed
    scene.stack.hub.post(f"/repos/{scene.name}/protected", branch="classifier")
    answer = scene.asked("/preflight fix")
    assert "rule violations" in answer
    assert "diff --git" in answer
    assert head_of(scene) == pushed


def _is_fixing(scene: Scene) -> bool:
    recorded = scene.stack.hub.ask("GET", "/recording")
    return any(one["path"].startswith(f"/repos/{scene.name}/git/commits") for one in recorded)


def test_the_branch_of_a_fork_gets_a_patch_and_its_author_may_only_ask(scene: Scene) -> None:
    scene.grant(contents="write")
    fork = scene.stack.hub.post(f"/repos/{scene.name}/forks", user="olga")
    scene.open(head_repo=fork["full_name"], user="olga")
    old = head_of(scene)
    assert "GiB" in scene.asked("/preflight estimate A100", "olga")
    assert "Sorry @olga, only people with write access" in scene.asked("/preflight fix", "olga")
    answer = scene.asked("/preflight fix", "wanda")
    assert "in a fork" in answer
    assert "diff --git" in answer
    scene.stack.hub.ask("DELETE", f"/repos/{scene.name}/pulls/{scene.number}/head")
    assert "is gone" in scene.asked("/preflight fix", "wanda")
    assert head_of(scene) == old


def test_replies_and_buttons_act_for_the_person_behind_them(scene: Scene) -> None:
    seen = scene.open().concluded()
    first = next(item for item in seen["review_comments"] if "PF201" in item["body"])
    scene.fault(kind="lose", method="POST", path="/pulls/1/comments/[0-9]+/replies$")
    asked = scene.in_thread(first["id"], "why?\n\n/preflight explain", "dana")
    shown = {name: [action["identifier"] for action in run["actions"]] for name, run in runs(seen).items()}
    assert shown == {
        "preflight/code": ["rerun", "fix", "explain"],
        "preflight/memory": ["rerun", "fits", "explain"],
    }
    first_code = code = scene.press("preflight/code", "explain", "dana")
    memory = scene.press("preflight/memory", "fits", "wanda")
    assert "<b>PF" in scene.answer_to(f"button-{code}-explain")
    assert "largest micro-batch" in scene.answer_to(f"button-{memory}-fits")
    assert "<b>PF201</b>" in scene.answer_to(asked)
    reply = next(item for item in scene.seen()["review_comments"] if f"answer={asked} " in item["body"])
    assert reply["in_reply_to_id"] == first["id"]
    assert _reactions(scene, asked) == ["eyes"]
    scene.press("preflight/code", "fix", "mallory")
    assert "Sorry @mallory" in scene.answer_to(f"button-{code}-fix")
    number = len(scene.seen()["check_runs"])
    scene.press("preflight/code", "rerun", "dana")
    scene.stack.hub.until(lambda: len(scene.seen()["check_runs"]) > number, 60, "a new run")
    scene.concluded()
    scene.grant(contents="write")
    code = scene.press("preflight/code", "fix", "wanda")
    answer = scene.answer_to(f"button-{code}-fix")
    fixed = head_of(scene)
    assert f"Committed [`{fixed[:12]}`]" in answer
    scene.stack.hub.post(f"/check-runs/{first_code}/press", identifier="fix", user="dana")  # of the older commit
    scene.stack.hub.until(lambda: "has moved on" in scene.answer_to(f"button-{first_code}-fix"), 60, "a refusal")
    assert head_of(scene) == fixed
    assert "fix" not in [action["identifier"] for action in runs(scene.concluded())["preflight/code"]["actions"]]
