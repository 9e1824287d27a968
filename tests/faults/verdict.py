"""What is wrong with a pull request when everything came to rest: lost, doubled, or left hanging."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bot.core.external_id import parse_external_id
from bot.core.plan import CHECK_NAMES
from bot.localhub.model import App, CheckRun, Comment, Pull
from bot.localhub.state import Hub
from bot.render.summary import SUMMARY_MARKER

_FINGERPRINT = re.compile(r"<!-- preflight:fingerprint=([^ ]+)")
_ANSWER = re.compile(r"<!-- preflight:answer=(\d+)")
_CODE = re.compile(r"\bPF\d{3}\b")


@dataclass(slots=True)
class Verdict:
    """`reviews` counts those whose checks both ended in a result; `failed` those whose check says that we failed."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    hanging: list[str] = field(default_factory=list)
    reviews: int = 0
    failed: int = 0

    @property
    def is_clean(self) -> bool:
        return not self.lost and not self.doubled and not self.hanging


def judge(hub: Hub, app: App, pull: Pull, bugs: Iterable[str], commands: Iterable[int]) -> Verdict:
    """Look at one pull request. `bugs` are the codes its head must be told of, `commands` the comments to answer."""
    verdict = Verdict()
    with hub.lock:
        runs = [run for run in hub.rows.runs.values() if run.suite.repo is pull.repo and run.suite.app is app]
        comments = [item for item in hub.comments_of(pull) if item.author is app.bot]
        conversation = [item for item in hub.conversation_of(pull) if item.author is app.bot]
        _judge_runs(verdict, pull, runs)
        _judge_reviews(verdict, hub, app, pull)
        _judge_comments(verdict, pull, comments, conversation, bugs)
        answers = Counter(found[1] for item in conversation if (found := _ANSWER.match(item.body)))
        for command in commands:
            if not answers[str(command)] and pull.state == "open":
                verdict.lost.append(f"command {command} has no answer")
        verdict.doubled += [f"command {key} has {count} answers" for key, count in answers.items() if count > 1]
    return verdict


def _judge_runs(verdict: Verdict, pull: Pull, runs: list[CheckRun]) -> None:
    verdict.hanging += [
        f"{run.name} on {run.suite.head_sha[:8]} ({run.external_id[-24:]}) is {run.status}"
        for run in runs
        if run.status != "completed"
    ]
    heads: dict[str, dict[str, CheckRun]] = {}
    for run in runs:
        heads.setdefault(run.suite.head_sha, {})[run.name] = run  # the newest of a name counts
    for found in _by_review(runs).values():
        ends = {run.conclusion for run in found.values()}
        if found.keys() >= set(CHECK_NAMES) and ends <= {"success", "neutral", "failure", "skipped"}:
            verdict.reviews += 1
            verdict.failed += any(run.external_id.endswith(":failed") for run in found.values())
    newest = heads.get(pull.head_sha, {})
    if pull.state == "open":
        for name in CHECK_NAMES:
            if name not in newest:
                verdict.lost.append(f"{name} is missing on the head {pull.head_sha[:8]}")
            elif newest[name].conclusion == "cancelled":
                verdict.lost.append(f"{name} is cancelled on the head {pull.head_sha[:8]}")
    kinds = Counter((run.suite.head_sha[:8], run.name, _generation(run)) for run in runs)
    verdict.doubled += [f"check run {kind} was created {count} times" for kind, count in kinds.items() if count > 1]


def _by_review(runs: list[CheckRun]) -> dict[tuple[str, int], dict[str, CheckRun]]:
    """The runs of each review: a head may be reviewed again (re-run, reopened), under another generation."""
    found: dict[tuple[str, int], dict[str, CheckRun]] = {}
    for run in runs:
        found.setdefault((run.suite.head_sha, _generation(run)), {})[run.name] = run
    return found


def _generation(run: CheckRun) -> int:
    known = parse_external_id(run.external_id)
    return known.generation if known is not None else -run.id


def _judge_reviews(verdict: Verdict, hub: Hub, app: App, pull: Pull) -> None:
    reviews = [review for review in hub.reviews_of(pull) if review.author is app.bot]
    verdict.hanging += [f"review {review.id} is pending" for review in reviews if review.state == "PENDING"]
    said = Counter(
        (review.body, tuple(sorted(_first_line(item) for item in review.comments)))
        for review in reviews
        if review.state != "PENDING" and review.comments
    )
    verdict.doubled += [f"a review was posted {count} times" for count in said.values() if count > 1]


def _judge_comments(
    verdict: Verdict, pull: Pull, comments: Sequence[Comment], conversation: Sequence[Comment], bugs: Iterable[str]
) -> None:
    marks = Counter(found[1] for item in comments if (found := _FINGERPRINT.match(item.body)))
    verdict.doubled += [
        f"finding {mark[:16]} was commented {count} times" for mark, count in marks.items() if count > 1
    ]
    summaries = [item for item in conversation if item.body.startswith(SUMMARY_MARKER)]
    if len(summaries) > 1:
        verdict.doubled.append(f"{len(summaries)} summaries")
    if pull.state == "open":
        told = Counter(_CODE.findall(item.body)[0] for item in comments if _CODE.search(item.body))
        for code, count in Counter(bugs).items():
            if told[code] < count:
                verdict.lost.append(f"{code}: {count} in the head, {told[code]} comments")


def _first_line(item: Comment) -> str:
    return item.body.partition("\n")[0]
