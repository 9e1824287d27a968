"""What people write under lines of a pull request. Callers hold `Hub.lock`."""

from __future__ import annotations

from typing import Any

from bot.localhub import rules
from bot.localhub.clock import now
from bot.localhub.errors import Refusal
from bot.localhub.model import Account, Pull, Review, ReviewComment
from bot.localhub.patches import hunk_until
from bot.localhub.payloads import comments, people, pulls, repos
from bot.localhub.service import Service


def reply(service: Service, first: ReviewComment, body: str, author: Account) -> ReviewComment:
    """Answer in a thread. GitHub keeps threads flat: an answer to an answer belongs to the first comment."""
    first = first.in_reply_to or first
    kept = {key: getattr(first, key) for key in ("path", "line", "side", "start_line", "start_side", "subject_type")}
    return _say(service, first.pull, first.commit_id, body, author, kept | {"in_reply_to": first})


def comment_on_line(service: Service, pull: Pull, path: str, line: int, body: str, author: Account) -> ReviewComment:
    """Begin a thread on a line of the diff."""
    files = service.hub.files(pull)
    faults = rules.anchor_faults({"path": path, "line": line, "side": "RIGHT"}, files)
    if faults:
        raise Refusal(422, faults[0])
    place = {"path": path, "line": line, "side": "RIGHT", "start_line": None, "start_side": None}
    return _say(service, pull, pull.head_sha, body, author, place)


def _say(
    service: Service, pull: Pull, commit_id: str, body: str, author: Account, place: dict[str, Any]
) -> ReviewComment:
    hub = service.hub
    text = rules.text_body(body, "PullRequestReviewComment")
    review = Review(
        id=hub.new_id(),
        pull=pull,
        author=author,
        app=None,
        body="",
        state="COMMENTED",
        commit_id=commit_id,
        submitted_at=now(),
    )
    hub.rows.reviews[review.id] = review
    change = next((one for one in hub.files(pull, commit_id) if one.path == place["path"]), None)
    line = place["line"]
    hunk = hunk_until(change.patch if change else None, place["side"], line) if line is not None else ""
    made = ReviewComment(
        id=hub.new_id(),
        author=author,
        body=text,
        created_at=now(),
        updated_at=now(),
        pull=pull,
        review=review,
        commit_id=commit_id,
        diff_hunk=hunk,
        **place,
    )
    review.comments.append(made)
    hub.rows.review_comments[made.id] = made
    payload = {
        "action": "created",
        "comment": comments.review_comment(hub, made),
        "pull_request": pulls.simple(hub, pull),
        "repository": repos.repository(hub.urls, pull.repo),
        "sender": people.account(hub.urls, author),
    }
    service.dispatcher.announce("pull_request_review_comment", pull.repo, payload)
    return made
