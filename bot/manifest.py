"""`app.yml`: what the app asks GitHub for. GitHub never reads it; `register` sends it, `doctor` compares with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from bot.errors import InputError

_MAX_NAME = 34  # GitHub's limit for the name of an app
_NOT_ON_GHES = frozenset({"merge_group"})
_NOT_ON_GHES_PERMISSIONS = frozenset({"merge_queues"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """The keys of `app.yml` that we use; `other` are passed on as they are."""

    name: str
    permissions: Mapping[str, str]
    events: tuple[str, ...]
    other: Mapping[str, Any]

    def without_merge_queues(self) -> Manifest:
        """For GitHub Enterprise Server, whose form refuses an event that it does not know."""
        permissions = {key: level for key, level in self.permissions.items() if key not in _NOT_ON_GHES_PERMISSIONS}
        events = tuple(event for event in self.events if event not in _NOT_ON_GHES)
        return Manifest(self.name, permissions, events, self.other)

    def filled(self, *, name: str, webhook_url: str, redirect_url: str) -> dict[str, Any]:
        """The document for GitHub's form. Raises `InputError` for a name or an address that GitHub would refuse."""
        if not 1 <= len(name) <= _MAX_NAME:
            raise InputError(f"--name: GitHub takes names of 1 to {_MAX_NAME} characters, unique on all of GitHub")
        parts = urlsplit(webhook_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise InputError(f"--webhook-url: not an http(s) address: {webhook_url!r}")
        if parts.hostname.endswith("example.org"):
            raise InputError("--webhook-url: give the address of your receiver (example.org is a placeholder)")
        home = home_of(webhook_url)
        if parts.path in {"", "/"}:
            raise InputError(f"--webhook-url: the receiver takes deliveries at /webhook: {home}/webhook")
        return {
            **self.other,
            "name": name,
            "url": home,
            "hook_attributes": {"url": webhook_url, "active": True},
            "redirect_url": redirect_url,
            "callback_urls": [f"{home}/login/callback"],  # reading a report needs a login (`bot.web.pages`)
            "default_permissions": dict(self.permissions),
            "default_events": list(self.events),
        }


def home_of(webhook_url: str) -> str:
    """The address of the receiver, under which its pages are too."""
    parts = urlsplit(webhook_url)
    return f"{parts.scheme}://{parts.netloc}"


def load(path: Path | None = None) -> Manifest:
    """The manifest of `path`, else the one this version came with. Raises `InputError`."""
    try:
        place = path if path else resources.files("bot").joinpath("app.yml")
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path or 'app.yml'}: cannot be read ({type(error).__name__})") from None
    try:
        document = yaml.safe_load(text)
        permissions = {str(key): str(level) for key, level in document["default_permissions"].items()}
        events = tuple(str(event) for event in document["default_events"])
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path or 'app.yml'}: no app manifest ({type(error).__name__})") from None
    known = {"name", "url", "hook_attributes", "redirect_url", "callback_urls", "default_permissions", "default_events"}
    other = {str(key): value for key, value in document.items() if key not in known}
    return Manifest(str(document.get("name", "preflight")), permissions, events, other)
