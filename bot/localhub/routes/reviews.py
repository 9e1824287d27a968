"""Reviews and review comments."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Blueprint, Response, jsonify

from bot.localhub import rules
from bot.localhub.clock import now
from bot.localhub.errors import Refusal, not_found, unprocessable
from bot.localhub.model import Json, Pull, Review, ReviewComment
from bot.localhub.patches import hunk_until
from bot.localhub.payloads import comments
from bot.localhub.reactions import react
from bot.localhub.routes import caller, hub, json_body, paged, repository

routes = Blueprint("reviews", __name__)
_PULL = "/repos/<owner>/<repo>/pulls/<int:pull_number>"
_COMMENT = "/repos/<owner>/<repo>/pulls/comments/<int:comment_id>"
_PENDING_TWICE = "User can only have one pending review per pull request"


def _pull(owner: str, repo: str, number: int) -> Pull:
    return hub().pull(repository(owner, repo), number)


def _visible(pull: Pull) -> list[Review]:
    return [one for one in hub().reviews_of(pull) if one.state != "PENDING" or one.author is caller().account]


@routes.get(f"{_PULL}/reviews")
def list_reviews(owner: str, repo: str, pull_number: int) -> Response:
    return paged(_visible(_pull(owner, repo, pull_number)), lambda one: comments.review(hub(), one))


@routes.post(f"{_PULL}/reviews")
def create_review(owner: str, repo: str, pull_number: int) -> Response:
    pull, body = _pull(owner, repo, pull_number), json_body()
    event, text = rules.review_body(body)
    if any(one.state == "PENDING" and one.author is caller().account for one in hub().reviews_of(pull)):
        raise unprocessable(_PENDING_TWICE)
    commit_id = _commit_id(pull, body.get("commit_id"))
    entries = body.get("comments") or []
    _check_entries(pull, commit_id, entries)
    if event == "APPROVE" and pull.author is caller().account:
        raise unprocessable("Can not approve your own pull request")
    review = _new_review(pull, commit_id, text)
    for entry in entries:
        _add_comment(review, entry)
    if event is not None:
        _submit(review, event)
    return jsonify(comments.review(hub(), review))


def _commit_id(pull: Pull, given: object) -> str:
    if given is None:
        return pull.head_sha
    if given not in {pull.head_sha, *pull.past_heads, *hub().commits(pull)}:
        raise unprocessable("The commit_id is not part of the pull request")
    return str(given)


def _check_entries(pull: Pull, commit_id: str, entries: Sequence[Json]) -> None:
    files = hub().files(pull, commit_id)
    faults: list[str] = []
    for entry in entries:
        if not isinstance(entry, dict) or "path" not in entry:
            raise unprocessable("Variable $comments of type [DraftPullRequestReviewComment] was provided invalid value")
        if "subject_type" in entry:
            raise unprocessable('"subject_type" is not a permitted key.')
        if not str(entry.get("body") or "").strip():
            raise unprocessable("Body can't be blank")
        if len(entry["body"]) > rules.MAX_BODY:
            raise unprocessable(f"Body is too long (maximum is {rules.MAX_BODY} characters)")
        faults += rules.anchor_faults(entry, files)
    if faults:  # all or nothing, and no word about which entry
        raise unprocessable(*dict.fromkeys(faults))


def _new_review(pull: Pull, commit_id: str, text: str) -> Review:
    review = Review(
        id=hub().new_id(),
        pull=pull,
        author=caller().account,
        app=caller().app,
        body=text,
        state="PENDING",
        commit_id=commit_id,
        submitted_at=None,
    )
    hub().rows.reviews[review.id] = review
    return review


def _add_comment(review: Review, entry: Json, in_reply_to: ReviewComment | None = None) -> ReviewComment:
    side, line, start = entry.get("side") or "RIGHT", entry.get("line"), entry.get("start_line")
    change = next((one for one in hub().files(review.pull, review.commit_id) if one.path == entry["path"]), None)
    comment = ReviewComment(
        id=hub().new_id(),
        author=review.author,
        body=entry["body"],
        created_at=now(),
        updated_at=now(),
        app=review.app,
        pull=review.pull,
        review=review,
        path=entry["path"],
        commit_id=review.commit_id,
        line=line,
        side=side,
        start_line=start,
        start_side=(entry.get("start_side") or side) if start is not None else None,
        diff_hunk=hunk_until(change.patch if change else None, side, line) if line is not None else "",
        subject_type=entry.get("subject_type") or "line",
        in_reply_to=in_reply_to,
    )
    review.comments.append(comment)
    hub().rows.review_comments[comment.id] = comment
    return comment


def _submit(review: Review, event: str) -> None:
    review.state = rules.REVIEW_EVENTS[event]
    review.submitted_at = review.pull.updated_at = now()


def _review(owner: str, repo: str, number: int, review_id: int) -> Review:
    pull = _pull(owner, repo, number)
    found = hub().rows.reviews.get(review_id)
    if found is None or found.pull is not pull or found not in _visible(pull):
        raise not_found()
    return found


@routes.get(f"{_PULL}/reviews/<int:review_id>")
def get_review(owner: str, repo: str, pull_number: int, review_id: int) -> Response:
    return jsonify(comments.review(hub(), _review(owner, repo, pull_number, review_id)))


@routes.get(f"{_PULL}/reviews/<int:review_id>/comments")
def list_review_comments(owner: str, repo: str, pull_number: int, review_id: int) -> Response:
    review = _review(owner, repo, pull_number, review_id)
    return paged(review.comments, lambda one: comments.review_comment(hub(), one))


@routes.put(f"{_PULL}/reviews/<int:review_id>")
def update_review(owner: str, repo: str, pull_number: int, review_id: int) -> Response:
    review = _own(_review(owner, repo, pull_number, review_id))
    review.body = rules.text_body(json_body().get("body"), "PullRequestReview")
    return jsonify(comments.review(hub(), review))


@routes.post(f"{_PULL}/reviews/<int:review_id>/events")
def submit_review(owner: str, repo: str, pull_number: int, review_id: int) -> Response:
    review, body = _own(_review(owner, repo, pull_number, review_id)), json_body()
    if review.state != "PENDING":
        raise unprocessable("Could not submit a review that is not pending")
    event, text = rules.review_body({"body": review.body} | body)
    if event is None:
        raise unprocessable("Event can't be blank")
    review.body = text
    _submit(review, event)
    return jsonify(comments.review(hub(), review))


@routes.delete(f"{_PULL}/reviews/<int:review_id>")
def delete_review(owner: str, repo: str, pull_number: int, review_id: int) -> Response:
    review = _own(_review(owner, repo, pull_number, review_id))
    if review.state != "PENDING":
        raise unprocessable("Can not delete a non-pending pull request review")
    body = comments.review(hub(), review)
    for comment in review.comments:
        del hub().rows.review_comments[comment.id]
    del hub().rows.reviews[review.id]
    return jsonify(body)


@routes.put(f"{_PULL}/reviews/<int:review_id>/dismissals")
def dismiss_review(owner: str, repo: str, pull_number: int, review_id: int) -> Response:
    review = _review(owner, repo, pull_number, review_id)
    if review.state not in {"APPROVED", "CHANGES_REQUESTED"}:
        raise unprocessable(f"Can not dismiss a {review.state.lower()} pull request review")
    rules.text_body(json_body().get("message"), "PullRequestReview")
    review.state = "DISMISSED"
    return jsonify(comments.review(hub(), review))


def _own(review: Review) -> Review:
    if review.author is not caller().account:
        raise Refusal(403, "Resource not accessible by integration")
    return review


# --- comments --------------------------------------------------------------------------------------------------


@routes.get(f"{_PULL}/comments")
def list_comments(owner: str, repo: str, pull_number: int) -> Response:
    found = hub().comments_of(_pull(owner, repo, pull_number))
    return paged(found, lambda one: comments.review_comment(hub(), one))


@routes.post(f"{_PULL}/comments")
def create_comment(owner: str, repo: str, pull_number: int) -> tuple[Response, int]:
    pull, body = _pull(owner, repo, pull_number), json_body()
    rules.text_body(body.get("body"), "PullRequestReviewComment")
    if "in_reply_to" in body:
        return _answer(pull, int(body["in_reply_to"]), body)
    for key in ("commit_id", "path"):
        if key not in body:
            raise Refusal(422, "Invalid request.\n\n" + f'"{key}" wasn\'t supplied.')
    commit_id = _commit_id(pull, body["commit_id"])
    files = hub().files(pull, commit_id)
    faults = rules.anchor_faults(body, files)
    if body.get("subject_type") == "file":
        faults = [] if any(one.path == body["path"] for one in files) else ["Path could not be resolved"]
        body = body | {"line": None, "start_line": None}
    if faults:
        error = {"resource": "PullRequestReviewComment", "code": "custom", "field": "pull_request_review_thread.line"}
        raise Refusal(422, "Validation Failed", [error | {"message": fault} for fault in faults])
    review = _new_review(pull, commit_id, "")
    comment = _add_comment(review, body)
    _submit(review, "COMMENT")
    return jsonify(comments.review_comment(hub(), comment)), 201


@routes.post(f"{_PULL}/comments/<int:comment_id>/replies")
def reply(owner: str, repo: str, pull_number: int, comment_id: int) -> tuple[Response, int]:
    body = json_body()
    rules.text_body(body.get("body"), "PullRequestReviewComment")
    return _answer(_pull(owner, repo, pull_number), comment_id, body)


def _answer(pull: Pull, comment_id: int, body: Json) -> tuple[Response, int]:
    first = hub().rows.review_comments.get(comment_id)
    if first is None or first.pull is not pull:
        raise not_found()
    first = first.in_reply_to or first
    review = _new_review(pull, first.commit_id, "")
    kept = ("path", "line", "side", "start_line", "start_side", "subject_type")
    entry = {key: getattr(first, key) for key in kept} | {"body": body["body"]}
    answer = _add_comment(review, entry, first)
    _submit(review, "COMMENT")
    return jsonify(comments.review_comment(hub(), answer)), 201


def _comment(owner: str, repo: str, comment_id: int) -> ReviewComment:
    found = hub().rows.review_comments.get(comment_id)
    if found is None or found.pull.repo is not repository(owner, repo):
        raise not_found()
    return found


@routes.get(_COMMENT)
def get_comment(owner: str, repo: str, comment_id: int) -> Response:
    return jsonify(comments.review_comment(hub(), _comment(owner, repo, comment_id)))


@routes.patch(_COMMENT)
def update_comment(owner: str, repo: str, comment_id: int) -> Response:
    found = _comment(owner, repo, comment_id)
    found.body = rules.text_body(json_body().get("body"), "PullRequestReviewComment")
    found.updated_at = now()
    return jsonify(comments.review_comment(hub(), found))


@routes.delete(_COMMENT)
def delete_comment(owner: str, repo: str, comment_id: int) -> tuple[str, int]:
    found = _comment(owner, repo, comment_id)
    found.review.comments.remove(found)
    del hub().rows.review_comments[found.id]
    return "", 204


@routes.post(f"{_COMMENT}/reactions")
def create_reaction(owner: str, repo: str, comment_id: int) -> tuple[Response, int]:
    found, is_new = react(hub(), _comment(owner, repo, comment_id), caller().account, json_body().get("content"))
    return jsonify(comments.reaction(hub(), found)), 201 if is_new else 200
