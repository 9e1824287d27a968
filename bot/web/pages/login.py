"""Log in with GitHub: the web flow of the App, bound to one browser by a signed cookie, a state and PKCE."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets

from flask import Blueprint, Response, make_response, redirect, request
from itsdangerous import BadData, URLSafeTimedSerializer

from bot.settings import Secret
from bot.web.pages.context import Context, message, not_found
from bot.web.pages.github import GitHub, LoginRefused
from bot.web.pages.sessions import Sessions

_MINUTES = 10
_NEXT = re.compile(r"/(?:r/[\w.\-]{1,400}(?:/stats)?|stats)?")
"""Where a login may lead: pages of ours, never another host."""


def blueprint(context: Context, github: GitHub, sessions: Sessions) -> Blueprint:
    """The routes; without a client id and secret they do not exist."""
    routes = Blueprint("login", __name__)
    secret = context.settings.client_secret
    if not context.settings.has_login or secret is None:
        return routes
    flow = _Flow(context, github, sessions, secret)
    routes.add_url_rule("/login", "begin", flow.begin)
    routes.add_url_rule("/login/callback", "end", flow.end)
    routes.add_url_rule("/logout", "logout", flow.logout, methods=["POST"])
    return routes


class _Flow:
    def __init__(self, context: Context, github: GitHub, sessions: Sessions, secret: Secret) -> None:
        self._context = context
        self._github = github
        self._sessions = sessions
        self._cookie = "__Host-preflight-login" if context.settings.is_https else "preflight-login"
        self._signer = URLSafeTimedSerializer(
            secret.reveal(), salt=b"preflight login", signer_kwargs={"digest_method": hashlib.sha256}
        )

    def begin(self) -> Response:
        """Send the person to GitHub; the browser remembers what it asked."""
        state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        answer = make_response(redirect(self._github.authorize_url(state, challenge), 303))
        answer.set_cookie(
            self._cookie,
            str(self._signer.dumps([state, verifier, _next(request.args.get("next", ""))])),
            max_age=60 * _MINUTES,
            path="/",
            secure=self._context.settings.is_https,
            httponly=True,
            samesite="Lax",  # the way back is a navigation from another site
        )
        return answer

    def end(self) -> Response:
        """The person is back."""
        try:
            state, verifier, target = self._signer.loads(request.cookies.get(self._cookie, ""), max_age=60 * _MINUTES)
        except (BadData, ValueError):
            return self._failed("The login took too long, or began in another browser.")
        if not hmac.compare_digest(str(state).encode(), request.args.get("state", "").encode()):
            return self._failed("This answer belongs to another login.")
        code = request.args.get("code", "")
        if not code or len(code) > 200:
            return self._failed("GitHub was not told to let you in.", target=target)
        try:
            with self._context.slow():
                person = self._github.person(code, verifier)
        except LoginRefused:
            return self._failed("GitHub did not take the code: it can be used once, for ten minutes.", target=target)
        answer = make_response(redirect(_next(target), 303))
        self._sessions.start(answer, person.token, person.login, person.seconds)
        return self._without_cookie(answer)

    def logout(self) -> Response:
        """A form of our own pages: the cookie does not come along from another site."""
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
            return not_found()
        answer = make_response(redirect("/", 303))
        self._sessions.end(answer)
        return answer

    def _failed(self, why: str, target: str = "/") -> Response:
        return self._without_cookie(message(400, "You are not logged in", why, login=_next(target)))

    def _without_cookie(self, answer: Response) -> Response:
        answer.delete_cookie(
            self._cookie, path="/", secure=self._context.settings.is_https, httponly=True, samesite="Lax"
        )
        return answer


def _next(target: str) -> str:
    return target if _NEXT.fullmatch(target) else "/"
