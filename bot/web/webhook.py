"""``POST /webhook``: size, content type, signature over the raw bytes, JSON, claim, one small job, 202.

The order matters: nothing is parsed before the signature is right, and nothing is queued before it is claimed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Sequence
from typing import Any

import redis
from flask import Blueprint, Response, jsonify, request
from werkzeug.exceptions import RequestEntityTooLarge

from bot import deliveries
from bot.errors import InputError
from bot.intents import Ignore, Intent
from bot.queue.claims import AlreadyAccepted, BeingAccepted, is_delivery_id
from bot.queue.enqueue import Enqueuer
from bot.settings import Secret, WebSettings
from bot.store import Client, Keys
from bot.telemetry.logs import event as log_event
from bot.telemetry.meter import Meter
from bot.web.secrets import WebhookSecrets

MAX_BODY_BYTES = 25 * 1024 * 1024
"""GitHub does not send a larger payload at all."""
_log = logging.getLogger("preflight.webhook")
_OUTCOMES = {
    400: "malformed",
    401: "not signed",
    408: "not complete",
    413: "too large",
    415: "not JSON",
    503: "put off",
}
Answer = tuple[Response, int]


def signature_is_right(body: bytes, header: str | None, secrets: Sequence[Secret]) -> bool:
    """``X-Hub-Signature-256`` against the current and the previous secret, in constant time.

    Bytes are compared: `hmac.compare_digest` of str raises on a header that is not ASCII.
    """
    given = (header or "").encode("utf-8", "surrogateescape")
    right = False
    for secret in secrets:
        expected = hmac.new(secret.reveal().encode(), body, hashlib.sha256).hexdigest()
        right |= hmac.compare_digest(given, b"sha256=" + expected.encode())
    return right


def blueprint(
    settings: WebSettings,
    client: Client,
    keys: Keys,
    secrets: WebhookSecrets | None = None,
    meter: Meter | None = None,
) -> Blueprint:
    """The route, bound to its settings and Redis."""
    routes = Blueprint("webhook", __name__)
    receiver = _Receiver(settings, Enqueuer(client, keys), secrets or WebhookSecrets(settings.webhook_secrets))

    def receive() -> Answer:
        start = time.monotonic()
        answer = receiver.receive()
        if meter is not None:
            _count(meter, answer, time.monotonic() - start)
        return answer

    routes.add_url_rule("/webhook", "receive", receive, methods=["POST"])
    return routes


def _count(meter: Meter, answer: Answer, seconds: float) -> None:
    """By outcome; the event only where the signature was right, or anybody could make series of their own."""
    response, status = answer
    outcome = _OUTCOMES.get(status) or str((response.get_json(silent=True) or {}).get("message"))
    event = request.headers.get("X-GitHub-Event", "") if status in (200, 202, 503) else "unknown"
    meter.count("preflight_deliveries", event=event if event in deliveries.EVENTS else "other", outcome=outcome)
    meter.observe("preflight_delivery_seconds", seconds)
    meter.keep_flushing()


class _Receiver:
    def __init__(self, settings: WebSettings, enqueuer: Enqueuer, secrets: WebhookSecrets) -> None:
        self._settings = settings
        self._enqueuer = enqueuer
        self._secrets = secrets

    def _is_signed(self, body: bytes, header: str | None) -> bool:
        if signature_is_right(body, header, self._secrets.current()):
            return True
        fresh = self._secrets.after_a_miss()
        return bool(fresh) and signature_is_right(body, header, fresh)

    def receive(self) -> Answer:
        if request.mimetype != "application/json":
            return _hang_up(415, "set the webhook's content type to application/json")
        try:
            body = _whole_body()
        except RequestEntityTooLarge:
            return _hang_up(413, "body over 25 MiB")
        except OSError:  # the time-out that `preflight serve` gives its sockets
            return _hang_up(408, "the body did not arrive")
        if not self._is_signed(body, request.headers.get("X-Hub-Signature-256")):
            return _say(401, "signature missing or wrong")
        event = request.headers.get("X-GitHub-Event", "")
        delivery = request.headers.get("X-GitHub-Delivery", "")
        if not is_delivery_id(delivery):
            return _say(400, "X-GitHub-Delivery missing or malformed")
        try:
            payload = json.loads(body)
            if not isinstance(payload, dict):
                raise InputError("payload: not a JSON object")
            intent = deliveries.read(event, payload, self._settings.app_id)
        except (ValueError, RecursionError):
            return _say(400, "body is not JSON")
        except InputError as error:
            return _say(400, str(error))
        if event == "ping":
            return _say(200, "pong")
        return self._accept(intent, event, delivery)

    def _accept(self, intent: Intent, event: str, delivery: str) -> Answer:
        if isinstance(intent, Ignore):
            return _say(202, "ignored", reason=intent.reason)
        try:
            job_id = self._enqueuer.deliver(intent, delivery)
        except AlreadyAccepted:
            return _say(202, "already accepted")
        except BeingAccepted:
            return _say(503, "this delivery is being accepted, redeliver later")
        except redis.RedisError as error:
            said = {"delivery": delivery, "github_event": event, "reason": type(error).__name__}
            log_event(_log, "delivery not queued", said, logging.ERROR)
            return _say(503, "queue unavailable, redeliver later")
        log_event(_log, "delivery accepted", {**_ids(intent, event, delivery), "job_id": job_id})
        return _say(202, "accepted", job=job_id)


def _ids(intent: Intent, event: str, delivery: str) -> dict[str, object]:
    ids: dict[str, object] = {"delivery": delivery, "github_event": event, "intent": type(intent).__name__}
    name, number = getattr(intent, "full_name", None), getattr(intent, "number", None)
    return ids | ({"pull": f"{name}#{number}"} if number is not None else {"repository": name} if name else {})


def _whole_body() -> bytes:
    body = request.get_data(cache=False)
    if len(body) > MAX_BODY_BYTES:
        raise RequestEntityTooLarge
    return body


def _hang_up(status: int, message: str) -> Answer:
    """For a request whose body was not read to its end: the connection cannot carry another."""
    answer, _ = _say(status, message)
    answer.headers["Connection"] = "close"
    return answer, status


def _say(status: int, message: str, **more: Any) -> Answer:
    return jsonify({"message": message, **{key: value for key, value in more.items() if value is not None}}), status
