"""The app itself: installations, tokens, deliveries, the rate limit."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from bot.localhub import webhooks
from bot.localhub.access import NOT_REACHABLE, issue_token
from bot.localhub.clock import stamp
from bot.localhub.errors import Refusal, not_found
from bot.localhub.limits import rate
from bot.localhub.model import Delivery, Installation, Json
from bot.localhub.payloads import people, repos
from bot.localhub.routes import caller, cursored, hub, json_body, paged, service

routes = Blueprint("app", __name__)


@routes.get("/app")
def get_app() -> Response:
    return jsonify(people.app(hub().urls, caller().app))


@routes.get("/app/installations")
def list_installations() -> Response:
    found = [one for one in hub().rows.installations.values() if one.app is caller().app]
    return paged(found, lambda one: people.installation(hub().urls, one))


def _installation(installation_id: int) -> Installation:
    found = hub().rows.installations.get(installation_id)
    if found is None or found.app is not caller().app:
        raise not_found()
    return found


@routes.get("/app/installations/<int:installation_id>")
def get_installation(installation_id: int) -> Response:
    return jsonify(people.installation(hub().urls, _installation(installation_id)))


def _id_of(installation: Installation, name: str) -> int:
    """GitHub does not say whether a repository is missing or out of the installation's reach."""
    try:
        return hub().repository(installation.account.login, name).id
    except Refusal:
        raise Refusal(422, NOT_REACHABLE) from None


@routes.post("/app/installations/<int:installation_id>/access_tokens")
def create_token(installation_id: int) -> tuple[Response, int]:
    installation = _installation(installation_id)
    if installation.suspended_at is not None:
        raise Refusal(403, "This installation has been suspended")
    body = json_body()
    ids = list(body.get("repository_ids") or [])
    ids += [_id_of(installation, name) for name in body.get("repositories") or []]
    token = issue_token(hub(), installation, body.get("permissions") or None, ids or None)
    answer: Json = {
        "token": token.value,
        "expires_at": stamp(token.expires_at),
        "permissions": token.permissions,
        "repository_selection": "selected" if token.repository_ids or installation.repository_ids else "all",
    }
    if token.repository_ids:
        chosen = [hub().rows.repositories[one] for one in sorted(token.repository_ids)]
        answer["repositories"] = [repos.repository(hub().urls, repo) for repo in chosen]
    return jsonify(answer), 201


@routes.get("/repos/<owner>/<repo>/installation")
def repository_installation(owner: str, repo: str) -> Response:
    for found in hub().installations_of(hub().repository(owner, repo)):
        if found.app is caller().app:
            return jsonify(people.installation(hub().urls, found))
    raise not_found()


@routes.get("/installation/repositories")
def installation_repositories() -> Response:
    found = [repo for repo in hub().rows.repositories.values() if caller().sees(repo)]
    return paged(found, lambda repo: repos.repository(hub().urls, repo), wrap="repositories")


@routes.get("/rate_limit")
def rate_limit() -> Response:
    core = rate(hub(), caller())
    search = core | {"limit": 30, "used": 0, "remaining": 30}
    return jsonify({"resources": {"core": core, "search": search, "graphql": core}, "rate": core})


@routes.get("/app/hook/config")
def get_hook_config() -> Response:
    return jsonify({"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": caller().app.webhook_url})


@routes.get("/app/hook/deliveries")
def list_deliveries() -> Response:
    found = sorted(_deliveries(), key=lambda one: -one.id)
    wanted = request.args.get("status")
    if wanted:
        found = [one for one in found if (200 <= one.status_code < 400) == (wanted == "success")]
    return cursored(found, lambda one: one.id, webhooks.delivery_item)


@routes.get("/app/hook/deliveries/<int:delivery_id>")
def get_delivery(delivery_id: int) -> Response:
    return jsonify(webhooks.delivery_full(_delivery(delivery_id)))


@routes.post("/app/hook/deliveries/<int:delivery_id>/attempts")
def redeliver(delivery_id: int) -> tuple[Response, int]:
    service().dispatcher.redeliver(_delivery(delivery_id))
    return jsonify({}), 202


def _deliveries() -> list[Delivery]:
    # One that is still under way is not listed yet.
    return [one for one in hub().rows.deliveries.values() if one.app is caller().app and one.status != "pending"]


def _delivery(delivery_id: int) -> Delivery:
    found = hub().rows.deliveries.get(delivery_id)
    if found is None or found.app is not caller().app:
        raise not_found()
    return found
