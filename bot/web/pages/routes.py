"""All pages of the web process, put together."""

from __future__ import annotations

import redis
from flask import Flask, Response, make_response, request
from werkzeug.exceptions import HTTPException

from bot.pages.settings import PageSettings
from bot.render.pages import style_sheet
from bot.settings import WebSettings
from bot.store import Client, Keys
from bot.web.pages import headers, login, reports, setup, stats
from bot.web.pages.context import Busy, busy, make_context, message, no_redis, not_found
from bot.web.pages.github import GitHub, GitHubAway
from bot.web.pages.sessions import Sessions
from bot.web.secrets import WebhookSecrets

_YEAR = 31_536_000


def install(
    app: Flask, pages: PageSettings, web: WebSettings, client: Client, keys: Keys, secrets: WebhookSecrets
) -> None:
    """Add the pages, the style sheet, the headers, and the pages for what goes wrong."""
    headers.install(app, is_https=pages.is_https)
    context = make_context(pages, client, keys, secrets)
    github = GitHub(pages)
    sessions = Sessions(context, github)
    for routes in (
        setup.blueprint(context, web, sessions),
        reports.blueprint(context, sessions),
        stats.blueprint(context, sessions),
        login.blueprint(context, github, sessions),
    ):
        routes.register_error_handler(redis.RedisError, lambda error: no_redis())
        routes.register_error_handler(Busy, lambda error: busy())
        routes.register_error_handler(GitHubAway, lambda error: _no_github())
        app.register_blueprint(routes)
    app.add_url_rule(f"/assets/preflight-{style_sheet()[1]}.css", "style", _style)
    app.register_error_handler(HTTPException, _http_error)


def _style() -> Response:
    answer = make_response(style_sheet()[0])
    answer.mimetype = "text/css"
    answer.headers["Cache-Control"] = f"public, max-age={_YEAR}, immutable"
    return answer


def _no_github() -> Response:
    return message(503, "GitHub did not answer", "Preflight asks GitHub whether you may see this. Please try again.")


def _http_error(error: HTTPException) -> Response | HTTPException:
    """People get a page, programs get what they got."""
    wants_page = request.accept_mimetypes.quality("text/html") > 0 and "text/html" in request.headers.get("Accept", "")
    if error.code == 404 and wants_page:
        return not_found()
    return error
