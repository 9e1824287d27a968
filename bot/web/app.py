"""The web process: a Flask factory. One route group per file; no GitHub call and no analysis behind the webhook."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from flask import Flask

from bot.pages.settings import PageSettings, page_settings
from bot.queue.ask import Asker
from bot.redact import install_redaction
from bot.settings import WebSettings, web_settings
from bot.store import Client, Keys, connect
from bot.telemetry.meter import Meter
from bot.web import admission, gate, health, metrics, webhook
from bot.web.ending import Ending
from bot.web.gate_tokens import FILE, GateTokens
from bot.web.pages import routes
from bot.web.secrets import WebhookSecrets

_GATE_SECONDS = 9.0
"""Kubernetes' API server waits 10 s unless it is told otherwise."""
_REDIS_TIMEOUT = 2.0
"""Seconds. GitHub hangs up after 10: a Redis that is gone must be a quick 503, which can be redelivered."""


def create_app(
    settings: WebSettings | None = None, pages: PageSettings | None = None, ending: Ending | None = None
) -> Flask:
    """The application. Without `settings` they are read from the environment; a missing secret is an `InputError`."""
    if settings is None:
        settings = web_settings(os.environ)
        secrets = WebhookSecrets(settings.webhook_secrets, lambda: web_settings(os.environ).webhook_secrets)
    else:
        secrets = WebhookSecrets(settings.webhook_secrets)
    install_redaction(logging.getLogger())
    app = Flask("preflight", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = webhook.MAX_BODY_BYTES + 1  # a chunked body is cut there without an error
    client = connect(settings.redis_url, timeout=_REDIS_TIMEOUT)
    keys = Keys(settings.namespace)
    meter = Meter(client, keys)
    app.register_blueprint(webhook.blueprint(settings, client, keys, secrets, meter))
    app.register_blueprint(health.blueprint(client, keys, ending or Ending()))
    app.register_blueprint(metrics.blueprint(client, keys, settings.metrics_token))
    _install_gate(app, settings, client, keys)
    routes.install(app, pages or page_settings(os.environ), settings, client, keys, secrets)
    return app


def _install_gate(app: Flask, settings: WebSettings, client: Client, keys: Keys) -> None:
    """The submission gate, where there are tokens for it."""
    file = os.environ.get(FILE, "")
    if not file:
        return
    door = gate.Door(GateTokens(Path(file)), client, keys)
    asker = Asker(settings.redis_url, keys, _GATE_SECONDS)
    app.register_blueprint(gate.blueprint(door, asker))
    app.register_blueprint(admission.blueprint(door, asker))
