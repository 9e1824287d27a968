"""The manifest flow: a manifest becomes an app, and a code is exchanged once for its secrets."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.localhub.clock import now
from bot.localhub.errors import Refusal, not_found
from bot.localhub.model import Account, App, Json
from bot.localhub.payloads import people
from bot.localhub.state import AppSpec, Hub

CODE_LIFE = timedelta(hours=1)
_MAX_NAME = 34
_EVENTS_BY_PERMISSION = {
    "pull_request": "pull_requests",
    "pull_request_review_comment": "pull_requests",
    "issue_comment": "issues",
    "check_run": "checks",
    "check_suite": "checks",
    "merge_group": "merge_queues",
    "push": "contents",
}


@dataclass(slots=True)
class Codes:
    """Codes that were given and not used yet, and until when they hold."""

    given: dict[str, tuple[App, Json, datetime]] = field(default_factory=dict)

    def give(self, app: App, shown: Json) -> str:
        """A new code for the answer of the conversion."""
        code = secrets.token_hex(20)
        self.given[code] = (app, shown, now() + CODE_LIFE)
        return code

    def take(self, code: str) -> Json:
        """The app with its secrets, once. 404 for a code that is unknown, used or too old."""
        _, shown, until = self.given.pop(code, (None, {}, now()))
        if until <= now():
            raise not_found()
        return shown


def faults_of(manifest: Any) -> list[str]:
    """What GitHub's form says about a manifest that it does not take."""
    if not isinstance(manifest, dict):
        return ["Manifest is not a JSON object"]
    found = [f'"{key}" wasn\'t supplied.' for key in ("name", "url", "redirect_url") if not manifest.get(key)]
    if len(str(manifest.get("name", ""))) > _MAX_NAME:
        found.append(f"Name is too long (maximum is {_MAX_NAME} characters)")
    hook = manifest.get("hook_attributes")
    if hook is not None and not (isinstance(hook, dict) and hook.get("url")):
        found.append('"url" wasn\'t supplied.')
    permissions = manifest.get("default_permissions") or {}
    for event in manifest.get("default_events") or []:
        needed = _EVENTS_BY_PERMISSION.get(event)
        if needed is None:
            found.append(f"Default events unsupported: {event}")
        elif needed not in permissions:
            found.append(f"Default events are not supported by permissions: {event}")
    return found


def register(hub: Hub, manifest: Json, owner: Account) -> tuple[App, Json]:
    """The app of a manifest, and the answer that its code is exchanged for."""
    faults = faults_of(manifest)
    slug = re.sub(r"[^a-z0-9]+", "-", str(manifest.get("name", "")).lower()).strip("-")
    if not slug or any(app.slug == slug for app in hub.rows.apps.values()):
        faults.append("Name is already in use")
    if faults:
        raise Refusal(422, "; ".join(faults))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    traditional = serialization.PrivateFormat.TraditionalOpenSSL
    pem = key.private_bytes(serialization.Encoding.PEM, traditional, serialization.NoEncryption()).decode()
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    hook = manifest.get("hook_attributes") or {}
    spec = AppSpec(
        slug=slug,
        public_key=public.decode(),
        webhook_url=str(hook.get("url", "")),
        webhook_secret=secrets.token_hex(20),
        permissions={"metadata": "read"} | dict(manifest.get("default_permissions") or {}),
        events=tuple(manifest.get("default_events") or ()),
        client_secret=secrets.token_hex(20),
    )
    app = hub.register_app(spec, owner.login)
    shown = people.app(hub.urls, app) | {
        "name": manifest["name"],
        "client_secret": spec.client_secret,
        "webhook_secret": spec.webhook_secret,
        "pem": pem,
    }
    return app, shown
