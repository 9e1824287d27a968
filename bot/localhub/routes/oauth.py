"""Logging in through an app: the page that asks a person, and the exchange of the code.

``/login/oauth/…`` are pages and not API: errors of the exchange are 200 with ``error``, as GitHub has them. The person
is chosen on the page: the hub has no passwords.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from bot.localhub.errors import not_found
from bot.localhub.model import Account, App, UserToken
from bot.localhub.routes import hub

routes = Blueprint("oauth", __name__)
CODE_SECONDS = 600
TOKEN_SECONDS = 28_800


@dataclass(frozen=True, slots=True)
class _Grant:
    app: App
    user: Account
    redirect_uri: str
    challenge: str
    until: float


_grants: dict[str, _Grant] = {}


def _app(given: str) -> App:
    found = next((app for app in hub().rows.apps.values() if app.client_id == given), None)
    if found is None:
        raise not_found()
    return found


@routes.get("/login/oauth/authorize")
def ask() -> str:
    with hub().lock:
        app = _app(request.args.get("client_id", ""))
        users = [one for one in hub().rows.accounts.values() if one.type == "User"]
        return render_template("authorize.html", app=app, users=users, query=request.args)


@routes.post("/login/oauth/authorize")
def grant() -> AnyResponse:
    form = request.form
    target, state = form.get("redirect_uri", ""), form.get("state", "")
    with hub().lock:
        app = _app(form.get("client_id", ""))
        if form.get("login", "") == "":
            return redirect(f"{target}?error=access_denied&state={state}")
        code = secrets.token_hex(10)
        user = hub().account(form["login"])
        _grants[code] = _Grant(app, user, target, form.get("code_challenge", ""), time.time() + CODE_SECONDS)
    return redirect(f"{target}?code={code}&state={state}")


@routes.post("/login/oauth/access_token")
def exchange() -> Response:
    given: dict[str, Any] = request.get_json(silent=True) or request.form.to_dict()
    with hub().lock:
        found = _grants.pop(str(given.get("code")), None)
        if found is None or found.until < time.time():
            return _error("bad_verification_code", "The code passed is incorrect or expired.")
        if given.get("client_id") != found.app.client_id or given.get("client_secret") != found.app.client_secret:
            return _error("incorrect_client_credentials", "The client_id and/or client_secret passed are incorrect.")
        if given.get("redirect_uri") not in (None, found.redirect_uri):
            return _error("redirect_uri_mismatch", "The redirect_uri MUST match the registered callback URL.")
        if found.challenge and _challenge(str(given.get("code_verifier", ""))) != found.challenge:
            return _error("bad_verification_code", "The code_verifier does not match.")
        token = UserToken(
            value=f"ghu_{secrets.token_urlsafe(30)}", app=found.app, user=found.user, until=time.time() + TOKEN_SECONDS
        )
        hub().rows.user_tokens[token.value] = token
    refresh = {"refresh_token": f"ghr_{secrets.token_urlsafe(40)}", "refresh_token_expires_in": 15_811_200}
    answer = {"access_token": token.value, "expires_in": TOKEN_SECONDS, "token_type": "bearer", "scope": ""}
    return jsonify(answer | refresh)


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _error(code: str, text: str) -> Response:
    return jsonify({"error": code, "error_description": text, "error_uri": "https://docs.github.com/apps"})
