"""What the demonstration does: open the pull request, wait, show, ask a question, and (in CI) prove the fixes."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bot.demo import sample, show
from bot.demo.hub import HubClient, Json
from bot.demo.stack import Stack
from bot.errors import PreflightError, Unavailable

CHECKS = ("preflight/code", "preflight/memory")
AUTHOR = "dana"
_CODE = re.compile(r"\bPF\d{3}\b")
_PATIENCE_SECONDS = 180.0


class DemoFailure(PreflightError):
    """Something that the demonstration promises did not happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the pull request comes from."""

    path: Path
    base: str
    head: str
    title: str
    body: str = ""
    name: str = "acme/trainer"


def open_pull(stack: Stack, source: Source) -> Json:
    """Serve the repository, install the app and open the pull request: this delivers the webhook."""
    stack.add_repository(source.name, source.path, roles={AUTHOR: "write"})
    body = {"title": source.title, "body": source.body, "base": source.base, "head": source.head, "user": AUTHOR}
    return dict(stack.hub.post(f"/repos/{source.name}/pulls", **body))


def concluded(stack: Stack, source: Source, number: int) -> Json:
    """The pull request once both checks are concluded; a failure shows the end of every log."""
    try:
        seen = stack.hub.until_concluded(source.name, number, CHECKS, _PATIENCE_SECONDS)
    except Unavailable as error:
        raise DemoFailure(f"{error}\n{stack.diagnosis()}") from None
    for run in seen["check_runs"]:
        if str(run["external_id"]).endswith(":failed"):
            raise DemoFailure(f"{run['name']}: {run['output']['summary']}\n{stack.diagnosis()}")
    return seen


def tell(stack: Stack, source: Source) -> tuple[int, Json]:
    """The main job, shown: review, checks, a slash command and its answer."""
    pull = open_pull(stack, source)
    number = int(pull["number"])
    page = f"{stack.hub.url}/{source.name}/pull/{number}"
    show.step(f"opened {source.name}#{number}, signed webhook delivered; waiting for the review")
    seen = concluded(stack, source, number)
    show.review(seen)
    show.checks(seen)
    command = "/preflight estimate A100"
    show.heading(f"{AUTHOR} comments: {command}")
    show.markdown(answer_to(stack, source, number, command))
    show.heading("Page")
    show.say(f"    {page}")
    return number, seen


def answer_to(stack: Stack, source: Source, number: int, command: str) -> str:
    """Comment as the author, and return what the bot wrote after it."""
    asked = stack.hub.post(f"/repos/{source.name}/pulls/{number}/comments", body=command, user=AUTHOR)

    def answer() -> str | None:
        later = stack.hub.pull(source.name, number)["conversation"]
        found = [item for item in later if item["id"] > asked["id"] and item["user"]["type"] == "Bot"]
        return str(found[0]["body"]) if found else None

    try:
        return str(stack.hub.until(answer, _PATIENCE_SECONDS, f"an answer to {command}"))
    except Unavailable as error:
        raise DemoFailure(f"{error}\n{stack.diagnosis()}") from None


def prove(stack: Stack, source: Source, number: int, seen: Json) -> None:
    """In CI: a redelivery adds nothing; the suggestions apply, the result parses, and what they fix is gone."""
    show.heading("Proof")
    _redeliver(stack, source, number)
    fixable = [item for item in seen["review_comments"] if "```suggestion" in item["body"]]
    if not fixable:
        return
    path = f"/repos/{source.name}/pulls/{number}/suggestions"
    fixed = {code for item in fixable for code in _CODE.findall(item["body"])[:1]}
    sha = stack.hub.post(path, comment_ids=[item["id"] for item in fixable], user=AUTHOR)["sha"]
    _check_applied(stack, source, sha, {item["path"] for item in fixable if item["path"].endswith(".py")}, fixed)
    after = concluded(stack, source, number)
    known = {item["id"] for item in seen["review_comments"]}
    new = [item for item in after["review_comments"] if item["id"] not in known]
    if new:
        raise DemoFailure(f"the suggestions left something to say: {show.place(new[0])}")
    gone = ", ".join(sorted(fixed))
    show.say(f"    applied {len(fixable)} suggestions: the result parses, {gone} found no more, no comment repeated")


def _check_applied(stack: Stack, source: Source, sha: str, names: set[str], fixed: set[str]) -> None:
    """The changed files parse, and the command line finds nothing of what was fixed."""
    tree = stack.directory / "applied"
    sample.git(stack.directory, "clone", "-q", str(stack.directory / "hub" / f"{source.name}.git"), str(tree))
    sample.git(tree, "checkout", "-q", sha)
    for name in names:
        ast.parse((tree / name).read_bytes(), name)
    command = [sys.executable, "-I", "-m", "preflight", "check", *sorted(names), "--format", "json"]
    done = subprocess.run(command, cwd=tree, capture_output=True, check=False)
    if done.returncode not in {0, 1}:
        raise DemoFailure(f"preflight check: {done.stderr.decode('utf-8', 'replace')}")
    left = [found for found in json.loads(done.stdout)["findings"] if found["rule"] in fixed]
    if left:
        raise DemoFailure(f"the suggestions left {left[0]['rule']} at {left[0]['path']}:{left[0]['line']}")


def check_sample(seen: Json) -> None:
    """The sample's bugs were found and its launch script does not fit: else the demonstration shows nothing."""
    said = {code for item in seen["review_comments"] for code in _CODE.findall(item["body"])[:1]}
    conclusions = {run["name"]: run["conclusion"] for run in seen["check_runs"]}
    missing = {"PF101", "PF102", "PF201", "PF204"} - said
    if missing or conclusions["preflight/memory"] != "failure":
        raise DemoFailure(f"the sample's bugs must be found: missing {sorted(missing)}, checks {conclusions}")


def _counts(hub: HubClient, source: Source, number: int) -> tuple[int, ...]:
    seen = hub.pull(source.name, number)
    return tuple(len(seen[key]) for key in ("reviews", "review_comments", "conversation", "check_runs"))


def _redeliver(stack: Stack, source: Source, number: int) -> None:
    before = _counts(stack.hub, source, number)
    deliveries = stack.hub.ask("GET", "/deliveries")
    first = next(item for item in deliveries if item["event"] == "pull_request" and item["action"] == "opened")
    again = stack.hub.post(f"/deliveries/{first['id']}/redeliver")

    def attempted() -> Json | None:
        found = stack.hub.ask("GET", "/deliveries")
        return next((item for item in found if item["id"] == again["id"] and item["status"] != "pending"), None)

    status = stack.hub.until(attempted, 15, "the redelivery")["status_code"]
    _settle(stack)
    after = _counts(stack.hub, source, number)
    if before != after:
        raise DemoFailure(f"a redelivery changed something: {before} -> {after}")
    show.say(f"    redelivered the webhook ({status}): nothing was added")


def _settle(stack: Stack) -> None:
    """Until nothing crossed the hub for a while."""
    quiet, last = 0, -1

    def is_quiet() -> bool:
        nonlocal quiet, last
        size = int(stack.hub.ask("GET", "/recording/size")["size"])
        quiet, last = (quiet + 1, size) if size == last else (0, size)
        return quiet >= 8

    stack.hub.until(is_quiet, 60, "quiet after the redelivery")
