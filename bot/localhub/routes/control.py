"""``/_hub``: what people and tests do with the hub. Not GitHub's API: it takes no token and listens on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flask import Blueprint, Response, jsonify

from bot.localhub import people, talk
from bot.localhub.errors import Refusal, not_found
from bot.localhub.faults import Fault
from bot.localhub.model import Account, CheckRun, Json, Pull, Repository
from bot.localhub.payloads import comments, pulls, repos
from bot.localhub.payloads.people import ROLE_LEVELS
from bot.localhub.routes import hub, json_body, service
from bot.localhub.state import AppSpec
from bot.localhub.webhooks import delivery_item

routes = Blueprint("control", __name__, url_prefix="/_hub")


def _repo(owner: str, repo: str) -> Repository:
    return hub().repository(owner, repo)


def _pull(owner: str, repo: str, number: int) -> Pull:
    return hub().pull(_repo(owner, repo), number)


def _run(run_id: int) -> CheckRun:
    try:
        return hub().rows.runs[run_id]
    except KeyError:
        raise not_found() from None


def _user(body: Json) -> Account:
    name = body.get("user")
    if not isinstance(name, str):
        raise Refusal(422, '"user" wasn\'t supplied.')
    return hub().account(name, "Bot" if name.endswith("[bot]") else "User")


def _needed(body: Json, key: str) -> Any:
    if key not in body:
        raise Refusal(422, f'"{key}" wasn\'t supplied.')
    return body[key]


@routes.get("/health")
def health() -> Response:
    return jsonify({"ok": True})


@routes.post("/apps")
def register_app() -> tuple[Response, int]:
    body = json_body()
    spec = AppSpec(
        slug=_needed(body, "slug"),
        public_key=_needed(body, "public_key"),
        webhook_url=_needed(body, "webhook_url"),
        webhook_secret=_needed(body, "webhook_secret"),
        permissions=_needed(body, "permissions"),
        events=tuple(_needed(body, "events")),
        client_secret=body.get("client_secret", ""),
    )
    with hub().lock:
        app = hub().register_app(spec, body.get("owner", spec.slug))
        return jsonify({"id": app.id, "client_id": app.client_id, "client_secret": app.client_secret}), 201


@routes.post("/installations")
def install() -> tuple[Response, int]:
    body = json_body()
    with hub().lock:
        app = hub().rows.apps[_needed(body, "app_id")]
        account = hub().account(_needed(body, "account"), "Organization")
        return jsonify({"id": hub().install(app, account, body.get("repository_ids")).id}), 201


@routes.post("/repos")
def add_repository() -> tuple[Response, int]:
    body = json_body()
    with hub().lock:
        source = Path(_needed(body, "source"))
        repo = hub().add_repository(_needed(body, "full_name"), source, is_private=body.get("private", True))
        for login, role in body.get("roles", {}).items():
            if role not in ROLE_LEVELS:
                raise Refusal(422, f"{role!r} is not a role")
            hub().account(login)
            repo.roles[login.lower()] = role
        return jsonify(repos.repository(hub().urls, repo)), 201


@routes.post("/repos/<owner>/<repo>/push")
def push(owner: str, repo: str) -> Response:
    body = json_body()
    with hub().lock:
        branch, source = _needed(body, "branch"), Path(_needed(body, "source"))
        sha = people.push(service(), _repo(owner, repo), branch, source, body.get("ref", branch), _user(body))
    return jsonify({"sha": sha})


@routes.delete("/repos/<owner>/<repo>/branches/<path:branch>")
def delete_branch(owner: str, repo: str, branch: str) -> tuple[str, int]:
    with hub().lock:
        people.delete_branch(service(), _repo(owner, repo), branch, _user(json_body()))
    return "", 204


@routes.post("/repos/<owner>/<repo>/rename")
def rename(owner: str, repo: str) -> Response:
    with hub().lock:
        found = _repo(owner, repo)
        people.rename(service(), found, _needed(json_body(), "name"))
        return jsonify(repos.repository(hub().urls, found))


@routes.post("/repos/<owner>/<repo>/forks")
def fork(owner: str, repo: str) -> tuple[Response, int]:
    with hub().lock:
        made = people.fork(service(), _repo(owner, repo), _user(json_body()))
        return jsonify(repos.repository(hub().urls, made)), 201


@routes.delete("/repos/<owner>/<repo>/pulls/<int:number>/head")
def delete_head(owner: str, repo: str, number: int) -> tuple[str, int]:
    with hub().lock:
        people.delete_fork(service(), _pull(owner, repo, number))
    return "", 204


@routes.post("/repos/<owner>/<repo>/pulls")
def open_pull(owner: str, repo: str) -> tuple[Response, int]:
    body = json_body()
    with hub().lock:
        pull = people.open_pull(
            service(),
            _repo(owner, repo),
            title=_needed(body, "title"),
            body=body.get("body", ""),
            base=_needed(body, "base"),
            head=_needed(body, "head"),
            author=_user(body),
            head_repo=hub().repository(*body["head_repo"].split("/", 1)) if "head_repo" in body else None,
            is_draft=body.get("draft", False),
        )
        return jsonify(pulls.full(hub(), pull)), 201


@routes.post("/repos/<owner>/<repo>/pulls/<int:number>/state")
def change_state(owner: str, repo: str, number: int) -> Response:
    body = json_body()
    action = _needed(body, "action")
    if action not in {"closed", "reopened", "converted_to_draft", "ready_for_review"}:
        raise Refusal(422, f"{action!r} is not an action")
    with hub().lock:
        pull = _pull(owner, repo, number)
        people.change_state(service(), pull, action, _user(body))
        return jsonify(pulls.full(hub(), pull))


@routes.post("/repos/<owner>/<repo>/pulls/<int:number>/comments")
def comment(owner: str, repo: str, number: int) -> tuple[Response, int]:
    body = json_body()
    with hub().lock:
        made = people.comment(service(), _pull(owner, repo, number), _needed(body, "body"), _user(body))
        return jsonify(comments.issue_comment(hub(), made)), 201


@routes.post("/repos/<owner>/<repo>/pulls/<int:number>/threads")
def thread(owner: str, repo: str, number: int) -> tuple[Response, int]:
    """A comment on a line (`path`, `line`), or an answer to one (`in_reply_to`)."""
    body = json_body()
    with hub().lock:
        pull, text, author = _pull(owner, repo, number), _needed(body, "body"), _user(body)
        if "in_reply_to" in body:
            found = hub().rows.review_comments.get(body["in_reply_to"])
            if found is None or found.pull is not pull:
                raise not_found()
            made = talk.reply(service(), found, text, author)
        else:
            made = talk.comment_on_line(service(), pull, _needed(body, "path"), _needed(body, "line"), text, author)
        return jsonify(comments.review_comment(hub(), made)), 201


@routes.post("/repos/<owner>/<repo>/pulls/<int:number>/suggestions")
def apply_suggestions(owner: str, repo: str, number: int) -> Response:
    body = json_body()
    with hub().lock:
        pull = _pull(owner, repo, number)
        chosen = [one for one in hub().comments_of(pull) if one.id in set(_needed(body, "comment_ids"))]
        sha = people.apply_suggestions(service(), pull, chosen, _user(body))
    return jsonify({"sha": sha})


@routes.get("/repos/<owner>/<repo>/pulls/<int:number>")
def show_pull(owner: str, repo: str, number: int) -> Response:
    """Everything a person sees on the pull request, as JSON."""
    from bot.localhub.payloads import checks

    with hub().lock:
        pull = _pull(owner, repo, number)
        runs = hub().runs_on(pull.repo, pull.head_sha)
        return jsonify(
            {
                "pull": pulls.full(hub(), pull),
                "reviews": [comments.review(hub(), one) for one in hub().reviews_of(pull)],
                "review_comments": [comments.review_comment(hub(), one) for one in hub().comments_of(pull)],
                "conversation": [comments.issue_comment(hub(), one) for one in hub().conversation_of(pull)],
                "check_runs": [
                    checks.run(hub(), run) | {"annotations": run.annotations, "actions": run.actions} for run in runs
                ],
            }
        )


@routes.post("/check-runs/<int:run_id>/rerun")
def rerun(run_id: int) -> Response:
    with hub().lock:
        people.rerun(service(), _run(run_id), _user(json_body()))
    return jsonify({})


@routes.post("/check-suites/<int:suite_id>/rerun")
def rerun_all(suite_id: int) -> Response:
    with hub().lock:
        people.rerun_all(service(), hub().rows.suites[suite_id], _user(json_body()))
    return jsonify({})


@routes.post("/check-runs/<int:run_id>/press")
def press(run_id: int) -> Response:
    body = json_body()
    with hub().lock:
        people.press(service(), _run(run_id), _needed(body, "identifier"), _user(body))
    return jsonify({})


@routes.get("/deliveries")
def deliveries() -> Response:
    found = sorted(hub().rows.deliveries.values(), key=lambda one: one.id)
    return jsonify([delivery_item(one) for one in found])


@routes.get("/deliveries/payloads")
def payloads() -> Response:
    found = sorted(hub().rows.deliveries.values(), key=lambda one: one.id)
    return jsonify([{"event": one.event, "action": one.action, "payload": one.payload} for one in found])


@routes.post("/deliveries/<int:delivery_id>/redeliver")
def redeliver(delivery_id: int) -> Response:
    with hub().lock:
        found = hub().rows.deliveries.get(delivery_id)
        if found is None:
            raise not_found()
        again = service().dispatcher.redeliver(found)
    return jsonify({"id": again.id, "guid": again.guid})


@routes.post("/faults")
def add_fault() -> tuple[Response, int]:
    body = json_body()
    unknown = set(body) - set(Fault.__slots__) | ({"hits", "action"} & set(body))
    if unknown or body.get("kind") not in {"status", "lose", "delay", "late"}:
        raise Refusal(422, f"not a fault: {sorted(unknown) or body.get('kind')}")
    service().faults.add(Fault(**body))
    return jsonify({}), 201


@routes.delete("/faults")
def clear_faults() -> tuple[str, int]:
    service().faults.clear()
    return "", 204


@routes.get("/recording/size")
def recording_size() -> Response:
    return jsonify({"size": len(service().recorder.all())})


@routes.get("/recording")
def recording() -> Response:
    return jsonify([one.to_json() for one in service().recorder.all()])
