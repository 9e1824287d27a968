"""``GET /gate/{repo_id}/{sha}``: what the memory check of a commit says, for submission gates without a GitHub token.

A worker asks GitHub each time: this process has no key of the app. Few requests wait at once, so that webhooks never
wait for a thread.
"""

from __future__ import annotations

import datetime
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import redis
from flask import Blueprint, Response, jsonify, request

from bot.errors import Unavailable
from bot.queue import names
from bot.queue.ask import Asker
from bot.store import Client, Keys
from bot.web.gate_tokens import GateTokens, Token

PER_MINUTE = 120
"""Questions of one token."""
_AT_ONCE = 2
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
Answer = tuple[Response, int]


def today() -> datetime.date:
    """In UTC."""
    return datetime.datetime.now(datetime.timezone.utc).date()


class Door:
    """Who may ask, how often, and how many at once. Shared by the gate and the admission webhook."""

    def __init__(self, tokens: GateTokens, client: Client, keys: Keys) -> None:
        self._tokens = tokens
        self._client = client
        self._keys = keys
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    def caller(self, secret: str = "") -> Token | None:
        """By the given secret, the bearer token or the verified TLS client."""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        secret = secret or (given.strip() if scheme.lower() == "bearer" else "")
        if secret:
            return self._tokens.find(secret, today())
        name = client_name(request.environ.get("gunicorn.socket"))
        return self._tokens.of_client(name, today()) if name else None

    def through(self, token: Token, work: Callable[[], Answer]) -> Answer:
        """`work`, unless the token has asked too often or too many wait."""
        key = self._keys.gate_rate(token.name, int(time.time() // 60))
        try:
            pipe = self._client.pipeline()
            pipe.incr(key)
            pipe.expire(key, 120)
            if int(pipe.execute()[0]) > PER_MINUTE:
                return refuse(429, "too many questions of this token, ask again in a minute", 60)
            if not self._places.acquire(blocking=False):
                return refuse(503, "too many questions at once, ask again", 1)
            try:
                return work()
            finally:
                self._places.release()
        except Unavailable as error:
            return refuse(503, str(error), 5)
        except redis.RedisError:
            return refuse(503, "Redis does not answer", 5)


def client_name(sock: Any) -> str:
    """The common name of a client certificate that the TLS layer verified; empty without one."""
    get = getattr(sock, "getpeercert", None)
    certificate = get() if get is not None else None
    for relative in (certificate or {}).get("subject", ()):
        for key, value in relative:
            if key == "commonName":
                return str(value)
    return ""


def refuse(status: int, message: str, wait: int = 0) -> Answer:
    """An error; `wait` seconds as ``Retry-After``."""
    answer = jsonify({"message": message})
    if wait:
        answer.headers["Retry-After"] = str(wait)
    if status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer, status


def blueprint(door: Door, asker: Asker) -> Blueprint:
    """The route."""
    routes = Blueprint("gate", __name__)

    def gate(repo_id: int, sha: str) -> Answer:
        token = door.caller()
        if token is None:
            return refuse(401, "a gate token is wanted")
        if not _SHA.fullmatch(sha):
            return refuse(400, "the full commit id is wanted, 40 hexadecimal digits")
        if not token.reaches(repo_id):
            return refuse(403, "the token is not for this repository")
        return door.through(token, lambda: _looked(asker, token, repo_id, sha))

    routes.add_url_rule("/gate/<int:repo_id>/<sha>", "gate", gate)
    return routes


def _looked(asker: Asker, token: Token, repo_id: int, sha: str) -> Answer:
    question = {"installation_id": token.installation_id, "repo_id": repo_id, "sha": sha}
    found = asker.ask(names.GATE_LOOK, question)
    if "error" in found:
        status = int(found["status"])
        return refuse(404 if status == 422 else status, str(found["error"]))  # not reached, in GitHub's words
    answer = jsonify({"version": 1, "repository_id": repo_id, "sha": sha, **found["check"]})
    answer.headers["Cache-Control"] = "no-store"
    return answer, 200
