"""``/_hub``, the owners' part: see `bot.localhub.administration`."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from bot.localhub import administration as acts
from bot.localhub.errors import Refusal, not_found
from bot.localhub.model import Installation
from bot.localhub.payloads import checks, comments, people
from bot.localhub.reactions import react
from bot.localhub.routes import hub, json_body, service

routes = Blueprint("administration", __name__, url_prefix="/_hub")


def _installation(installation_id: int) -> Installation:
    found = hub().rows.installations.get(installation_id)
    if found is None:
        raise not_found()
    return found


@routes.post("/installations/<int:installation_id>/permissions")
def grant(installation_id: int) -> Response:
    body = json_body()
    with hub().lock:
        found = _installation(installation_id)
        acts.grant(service(), found, dict(body["permissions"]), hub().account(body.get("user", found.account.login)))
        return jsonify(people.installation(hub().urls, found))


@routes.post("/installations/<int:installation_id>/suspended")
def suspend(installation_id: int) -> Response:
    body = json_body()
    with hub().lock:
        found = _installation(installation_id)
        sender = hub().account(body.get("user", found.account.login))
        acts.suspend(service(), found, sender, is_over=not body["suspended"])
        return jsonify(people.installation(hub().urls, found))


@routes.post("/repos/<owner>/<repo>/protected")
def protect(owner: str, repo: str) -> Response:
    body = json_body()
    with hub().lock:
        found = hub().repository(owner, repo)
        if body["branch"] not in found.git.branches():
            raise Refusal(422, "No such branch")
        found.protected.add(body["branch"])
        return jsonify(sorted(found.protected))


@routes.post("/repos/<owner>/<repo>/pulls/<int:number>/queue")
def queue(owner: str, repo: str, number: int) -> tuple[Response, int]:
    body = json_body()
    with hub().lock:
        pull = hub().pull(hub().repository(owner, repo), number)
        sha = acts.queue_for_merge(service(), pull, hub().account(body["user"]))
        return jsonify({"sha": sha}), 201


@routes.get("/repos/<owner>/<repo>/commits/<sha>/check-runs")
def runs(owner: str, repo: str, sha: str) -> Response:
    """The check runs on any commit, as a person sees them."""
    with hub().lock:
        found = hub().runs_on(hub().repository(owner, repo), sha)
        return jsonify([checks.run(hub(), run) for run in found])


@routes.post("/repos/<owner>/<repo>/pulls/<int:number>/merge")
def merge(owner: str, repo: str, number: int) -> Response:
    body = json_body()
    with hub().lock:
        pull = hub().pull(hub().repository(owner, repo), number)
        return jsonify({"sha": acts.merge(service(), pull, hub().account(body["user"]))})


@routes.post("/comments/<int:comment_id>/reactions")
def add_reaction(comment_id: int) -> tuple[Response, int]:
    """A person's reaction to a comment of the conversation or of a thread."""
    body = json_body()
    with hub().lock:
        found = hub().rows.issue_comments.get(comment_id) or hub().rows.review_comments.get(comment_id)
        if found is None:
            raise not_found()
        made, _ = react(hub(), found, hub().account(body["user"]), body["content"])
        return jsonify(comments.reaction(hub(), made)), 201


@routes.get("/comments/<int:comment_id>/reactions")
def reactions(comment_id: int) -> Response:
    """The reactions to a comment of the conversation or of a thread."""
    with hub().lock:
        rows = hub().rows
        found = rows.issue_comments.get(comment_id) or rows.review_comments.get(comment_id)
        if found is None:
            raise not_found()
        return jsonify([comments.reaction(hub(), one) for one in found.reactions])
