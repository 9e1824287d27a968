"""Issues (a pull request is one too), their comments and the reactions to them."""

from __future__ import annotations

from datetime import datetime

from flask import Blueprint, Response, jsonify, request

from bot.localhub import rules
from bot.localhub.clock import now
from bot.localhub.errors import Refusal, not_found
from bot.localhub.model import Issue, IssueComment
from bot.localhub.payloads import comments, people, pulls, repos
from bot.localhub.reactions import react
from bot.localhub.routes import caller, hub, json_body, paged, repository, service

routes = Blueprint("issues", __name__)
_ISSUE = "/repos/<owner>/<repo>/issues/<int:issue_number>"
_COMMENT = "/repos/<owner>/<repo>/issues/comments/<int:comment_id>"


def _issue(owner: str, repo: str, number: int) -> Issue:
    return hub().issue(repository(owner, repo), number)


@routes.get(_ISSUE)
def get_issue(owner: str, repo: str, issue_number: int) -> Response:
    return jsonify(pulls.issue(hub(), _issue(owner, repo, issue_number)))


@routes.get(f"{_ISSUE}/comments")
def list_comments(owner: str, repo: str, issue_number: int) -> Response:
    found = hub().conversation_of(_issue(owner, repo, issue_number))
    since = request.args.get("since")
    if since:
        start = datetime.fromisoformat(since.replace("Z", "+00:00"))
        found = [one for one in found if one.updated_at >= start]
    return paged(found, lambda one: comments.issue_comment(hub(), one))


@routes.post(f"{_ISSUE}/comments")
def create_comment(owner: str, repo: str, issue_number: int) -> tuple[Response, int]:
    issue = _issue(owner, repo, issue_number)
    if issue.is_locked:
        raise Refusal(403, "Unable to create comment because issue is locked.")
    comment = IssueComment(
        id=hub().new_id(),
        author=caller().account,
        body=rules.text_body(json_body().get("body"), "IssueComment"),
        created_at=now(),
        updated_at=now(),
        app=caller().app,
        issue=issue,
    )
    hub().rows.issue_comments[comment.id] = comment
    payload = {
        "action": "created",
        "issue": pulls.issue(hub(), issue),
        "comment": comments.issue_comment(hub(), comment),
        "repository": repos.repository(hub().urls, issue.repo),
        "sender": people.account(hub().urls, comment.author),
    }
    service().dispatcher.announce("issue_comment", issue.repo, payload)
    return jsonify(payload["comment"]), 201


def _comment(owner: str, repo: str, comment_id: int) -> IssueComment:
    found = hub().rows.issue_comments.get(comment_id)
    if found is None or found.issue.repo is not repository(owner, repo):
        raise not_found()
    return found


@routes.get(_COMMENT)
def get_comment(owner: str, repo: str, comment_id: int) -> Response:
    return jsonify(comments.issue_comment(hub(), _comment(owner, repo, comment_id)))


@routes.patch(_COMMENT)
def update_comment(owner: str, repo: str, comment_id: int) -> Response:
    found = _comment(owner, repo, comment_id)
    found.body = rules.text_body(json_body().get("body"), "IssueComment")
    found.updated_at = now()
    return jsonify(comments.issue_comment(hub(), found))


@routes.delete(_COMMENT)
def delete_comment(owner: str, repo: str, comment_id: int) -> tuple[str, int]:
    del hub().rows.issue_comments[_comment(owner, repo, comment_id).id]
    return "", 204


@routes.get(f"{_COMMENT}/reactions")
def list_reactions(owner: str, repo: str, comment_id: int) -> Response:
    return paged(_comment(owner, repo, comment_id).reactions, lambda one: comments.reaction(hub(), one))


@routes.post(f"{_COMMENT}/reactions")
def create_reaction(owner: str, repo: str, comment_id: int) -> tuple[Response, int]:
    found, is_new = react(hub(), _comment(owner, repo, comment_id), caller().account, json_body().get("content"))
    return jsonify(comments.reaction(hub(), found)), 201 if is_new else 200
