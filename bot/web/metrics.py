"""``GET /metrics`` for Prometheus, with a bearer token; without a token in the settings there is no such page."""

from __future__ import annotations

import hmac

import redis
from flask import Blueprint, Response, request

from bot.settings import Secret
from bot.store import Client, Keys

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def blueprint(client: Client, keys: Keys, token: Secret | None) -> Blueprint:
    """The route."""
    routes = Blueprint("metrics", __name__)

    def metrics() -> Response:
        if token is None:
            return Response("not here\n", 404, mimetype="text/plain")
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, b"Bearer " + token.reveal().encode()):
            return Response("a bearer token is needed\n", 401, {"WWW-Authenticate": "Bearer"}, mimetype="text/plain")
        from bot.telemetry.exposition import render

        try:
            return Response(render(client, keys), 200, content_type=_TEXT)
        except redis.RedisError as error:
            return Response(f"Redis: {type(error).__name__}\n", 503, mimetype="text/plain")

    routes.add_url_rule("/metrics", "metrics", metrics)
    return routes
