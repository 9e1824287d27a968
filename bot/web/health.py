"""``GET /healthz``: this process answers. ``GET /readyz``: Redis takes writes, a worker is alive, and we go on."""

from __future__ import annotations

import redis
from flask import Blueprint, Response, jsonify
from rq import Worker

from bot.store import Client, Keys
from bot.web.ending import Ending


def live_workers(client: Client) -> int:
    """Workers whose heartbeat has not expired (a killed one stays in rq's set for a while)."""
    keys = Worker.all_keys(connection=client)
    return int(client.exists(*keys)) if keys else 0


def blueprint(client: Client, keys: Keys, ending: Ending) -> Blueprint:
    """Both routes."""
    routes = Blueprint("health", __name__)

    def healthz() -> Response:
        return jsonify({"status": "ok"})

    def readyz() -> tuple[Response, int]:
        if ending.is_near:
            return jsonify({"status": "ending"}), 503
        try:
            client.set(keys.ready(), "1", ex=60)  # a full or read-only Redis answers and takes no delivery
            workers = live_workers(client)
        except redis.RedisError as error:
            return jsonify({"redis": type(error).__name__, "workers": None}), 503
        return jsonify({"redis": "ok", "workers": workers}), 200 if workers else 503

    routes.add_url_rule("/healthz", "healthz", healthz)
    routes.add_url_rule("/readyz", "readyz", readyz)
    return routes
