"""What a browser shows of the manifest flow and of installing an app, and the exchange of the code."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from bot.localhub.errors import Refusal, not_found
from bot.localhub.model import App, Json
from bot.localhub.registration import faults_of, register
from bot.localhub.routes import hub, service

routes = Blueprint("registration", __name__)


@routes.post("/settings/apps/new")
@routes.post("/organizations/<org>/settings/apps/new")
def form(org: str = "") -> tuple[str, int]:
    """GitHub shows what it was sent, and asks."""
    manifest = _manifest()
    faults = faults_of(manifest)
    page = render_template(
        "register.html",
        manifest=manifest if not faults else {},
        text=json.dumps(manifest),
        faults=faults,
        org=org,
        state=request.args.get("state", ""),
    )
    return page, 422 if faults else 200


@routes.post("/settings/apps")
def create() -> AnyResponse:
    """The button: the app is there, and the browser goes back with a code."""
    manifest = _manifest()
    manifest["name"] = request.form.get("name") or manifest.get("name")
    org, person = request.form.get("org", ""), request.form.get("user") or "you"
    with hub().lock:
        owner = hub().account(org, "Organization") if org else hub().account(person)
        app, shown = register(hub(), manifest, owner)
        code = service().codes.give(app, shown)
    service().dispatcher.ping(app)
    query = urlencode({"code": code, "state": request.form.get("state", "")})
    return redirect(f"{manifest['redirect_url']}?{query}")


def _manifest() -> Json:
    try:
        found = json.loads(request.form.get("manifest", ""))
    except ValueError:
        raise Refusal(422, "Manifest is not JSON") from None
    if not isinstance(found, dict):
        raise Refusal(422, "Manifest is not a JSON object")
    return found


@routes.post("/app-manifests/<code>/conversions")
def convert(code: str) -> tuple[Response, int]:
    return jsonify(service().codes.take(code)), 201


def _app(slug: str) -> App:
    found = next((app for app in hub().rows.apps.values() if app.slug == slug), None)
    if found is None:
        raise not_found()
    return found


@routes.get("/apps/<slug>")
@routes.get("/apps/<slug>/installations/new")
def installing(slug: str) -> str:
    with hub().lock:
        app = _app(slug)
        owners = sorted({repo.owner.login for repo in hub().rows.repositories.values()})
        there = {one.account.login for one in hub().rows.installations.values() if one.app is app}
        return render_template("install.html", app=app, owners=owners, there=there)


@routes.post("/apps/<slug>/installations")
def install(slug: str) -> AnyResponse:
    with hub().lock:
        account = hub().rows.accounts.get(request.form.get("account", "").lower())
        if account is None:
            raise not_found()
        app = _app(slug)
        if not any(one.app is app and one.account is account for one in hub().rows.installations.values()):
            hub().install(app, account)
    return redirect(f"/apps/{slug}")
