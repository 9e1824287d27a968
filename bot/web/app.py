"""The web process: a Flask factory. One route group per file; no GitHub call and no analysis behind the webhook."""

from __future__ import annotations

import logging
import os

from flask import Flask

from bot.pages.settings import PageSettings, page_settings
from bot.redact import install_redaction
from bot.settings import WebSettings, web_settings
from bot.store import Keys, connect
from bot.telemetry.meter import Meter
from bot.web import health, metrics, webhook
from bot.web.pages import routes
from bot.web.secrets import WebhookSecrets

_REDIS_TIMEOUT = 2.0
"""Seconds. GitHub hangs up after 10: a Redis that is gone must be a quick 503, which can be redelivered."""


def create_app(settings: WebSettings | None = None, pages: PageSettings | None = None) -> Flask:
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
    app.register_blueprint(health.blueprint(client, keys))
    app.register_blueprint(metrics.blueprint(client, keys, settings.metrics_token))
    routes.install(app, pages or page_settings(os.environ), settings, client, keys, secrets)
    return app
