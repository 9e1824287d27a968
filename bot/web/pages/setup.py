"""``GET /``: what this is and whether it is set up, no secret in it; ``POST /operator``: what an operator should do."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import redis
from flask import Blueprint, Response, make_response, request
from rq import Queue

from bot.queue import names
from bot.render.pages import render
from bot.settings import WebSettings
from bot.web.health import live_workers
from bot.web.pages.context import Context
from bot.web.pages.sessions import Sessions

_ATTEMPTS = 10
"""Tries for the operator's token in a minute, by anybody together."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the list. `state` is a class of the style sheet."""

    name: str
    state: str
    word: str
    text: str


def _item(name: str, is_good: bool, text: str, missing: str, *, is_needed: bool = True) -> Item:
    if is_good:
        return Item(name, "ok", "ready", text)
    return Item(name, "error" if is_needed else "calm", "missing" if is_needed else "off", missing)


def blueprint(context: Context, web: WebSettings, sessions: Sessions) -> Blueprint:
    """Both routes."""
    routes = Blueprint("setup", __name__)

    def show() -> Response:
        return _page(context, web, sessions)

    def operator() -> tuple[Response, int]:
        token = context.settings.operator_token
        if token is None:
            return _page(context, web, sessions, refused="No operator token is set."), 404
        if _is_over(context):
            return _page(context, web, sessions, refused="Too many tries; wait a minute."), 429
        given = request.form.get("token", "")[:200].strip().encode()
        if not hmac.compare_digest(given, token.reveal().encode()):
            return _page(context, web, sessions, refused="That is not the operator token."), 403
        return _page(context, web, sessions, hints=tuple(_hints(context, web))), 200

    routes.add_url_rule("/", "show", show)
    routes.add_url_rule("/operator", "operator", operator, methods=["POST"])
    return routes


def _page(
    context: Context, web: WebSettings, sessions: Sessions, hints: tuple[Item, ...] = (), refused: str = ""
) -> Response:
    settings = context.settings
    has_redis, workers = _alive(context)
    user = sessions.login() if has_redis else None
    slug = _slug(context, web) if has_redis else ""
    page = render(
        "setup.html",
        items=tuple(_items(context, web, has_redis, workers)),
        hints=hints,
        refused=refused,
        has_operator=settings.operator_token is not None,
        login_url="/login" if settings.has_login and not user else "",
        install_url=f"{settings.github_url}/apps/{slug}/installations/new" if slug else "",
        user=user,
    )
    return make_response(page)


def _items(context: Context, web: WebSettings, has_redis: bool, workers: int) -> Iterable[Item]:
    settings = context.settings
    yield _item("Webhooks", web.app_id is not None, "Signed deliveries are taken.", "The app's id is not set.")
    yield _item("Store", has_redis, "Redis answers.", "Redis does not answer: deliveries are refused until it does.")
    yield _item("Workers", workers > 0, "Somebody reviews.", "No worker is alive: reviews wait in the queue.")
    yield _item("Reports", settings.has_links, "Checks link to their report.", "Checks carry no link.", is_needed=False)
    yield _item(
        "Login", settings.has_login, "A link that ended can be renewed.", "A link that ended needs a re-run.",
        is_needed=False,
    )  # fmt: skip


def _alive(context: Context) -> tuple[bool, int]:
    try:
        return True, live_workers(context.client)
    except redis.RedisError:
        return False, 0


def _slug(context: Context, web: WebSettings) -> str:
    """The app's name on GitHub, once a worker has asked for it."""
    login: Any = context.client.get(f"{context.keys.space}:app-login:{web.app_id}")
    return str(login, "utf-8").removesuffix("[bot]") if login else ""


def _is_over(context: Context) -> bool:
    key = context.keys.operator_tries()
    pipe = context.client.pipeline()
    pipe.incr(key)
    pipe.expire(key, 60, nx=True)
    return int(pipe.execute()[0]) > _ATTEMPTS


def _hints(context: Context, web: WebSettings) -> Iterable[Item]:
    settings = context.settings
    workers = live_workers(context.client)
    waiting = {name: Queue(name, connection=context.client).count for name in (names.FAST, names.REVIEW)}
    shown = ", ".join(f"{name}: {count}" for name, count in waiting.items())
    is_slow = sum(waiting.values()) > 50 * max(1, workers)
    yield Item(
        "Queues", "warning" if is_slow else "ok", f"{sum(waiting.values())} waiting", f"{shown}; {workers} workers."
    )
    num_open = int(context.client.zcard(context.keys.open_reviews()))
    yield Item("Open reviews", "ok", str(num_open), "Those that hang are concluded by the sweeper.")
    yield _item(
        "App id", web.app_id is not None, str(web.app_id), "Set PREFLIGHT_APP_ID: our own events are not told apart."
    )
    is_rotating = len(web.webhook_secrets) > 1
    yield Item(
        "Webhook secret", "borderline" if is_rotating else "ok", "rotating" if is_rotating else "one",
        "The previous secret is still taken: unset PREFLIGHT_WEBHOOK_SECRET_PREVIOUS when no old delivery is due."
        if is_rotating else "Only the current secret is taken.",
    )  # fmt: skip
    yield _item(
        "Public address", bool(settings.public_url), settings.public_url,
        "Set PREFLIGHT_PUBLIC_URL for web and workers, and checks link to reports here.", is_needed=False,
    )  # fmt: skip
    yield _item(
        "Login", settings.has_login, f"Callback URL of the app: {settings.public_url}/login/callback",
        "Set PREFLIGHT_CLIENT_ID and PREFLIGHT_CLIENT_SECRET, and the app's callback URL to /login/callback here.",
        is_needed=False,
    )  # fmt: skip
    yield Item("GitHub", "ok", "set", f"API {settings.api_url}, pages {settings.github_url}")
    info: Any = context.client.info("persistence")
    yield _item(
        "Redis persistence", bool(info.get("aof_enabled")), "Append-only file on.",
        "Off: queued reviews are lost with Redis (what people decided is on GitHub as well).", is_needed=False,
    )  # fmt: skip
