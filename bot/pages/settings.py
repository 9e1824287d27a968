"""The settings of the pages. Without PREFLIGHT_PUBLIC_URL there are none: the checks then carry no link.

Web process and workers read the same variables: a worker signs the links that the web process opens.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from bot.errors import InputError
from bot.settings import Secret, optional_secret, positive_int

_MAX_LINK_DAYS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """`link_secrets` are the webhook secrets, the current one first: keys are derived from them.

    `client_id` and `client_secret` are the app's, for people who log in; `operator_token` opens what only an operator
    should see.
    """

    public_url: str = ""
    link_secrets: tuple[Secret, ...] = ()
    link_days: int = 7
    report_days: int = 30
    client_id: str = ""
    client_secret: Secret | None = None
    operator_token: Secret | None = None
    api_url: str = "https://api.github.com"
    verify: bool | str = True

    @property
    def has_links(self) -> bool:
        """Whether checks can carry a link to their report."""
        return bool(self.public_url and self.link_secrets)

    @property
    def has_login(self) -> bool:
        """Whether people can log in with GitHub."""
        return bool(self.has_links and self.client_id and self.client_secret)

    @property
    def is_https(self) -> bool:
        """Plain HTTP is for a loopback address alone."""
        return self.public_url.startswith("https://")

    @property
    def github_url(self) -> str:
        """Where people see GitHub: github.com, a GHES host, a data-residency host."""
        parts = urlsplit(self.api_url)
        if parts.path.rstrip("/").endswith("/api/v3"):
            return self.api_url[: self.api_url.index("/api/v3")]
        return f"{parts.scheme}://{parts.netloc.removeprefix('api.')}"


def page_settings(environment: Mapping[str, str]) -> PageSettings:
    """Raises `InputError`, naming the variable, for one that is no good."""
    secrets = (
        optional_secret(environment, "PREFLIGHT_WEBHOOK_SECRET"),
        optional_secret(environment, "PREFLIGHT_WEBHOOK_SECRET_PREVIOUS"),
    )
    return PageSettings(
        public_url=_public_url(environment.get("PREFLIGHT_PUBLIC_URL", "").strip()),
        link_secrets=tuple(secret for secret in secrets if secret is not None),
        link_days=min(_MAX_LINK_DAYS, positive_int(environment, "PREFLIGHT_LINK_DAYS", 7)),
        report_days=positive_int(environment, "PREFLIGHT_REPORT_DAYS", 30),
        client_id=environment.get("PREFLIGHT_CLIENT_ID", "").strip(),
        client_secret=optional_secret(environment, "PREFLIGHT_CLIENT_SECRET"),
        operator_token=optional_secret(environment, "PREFLIGHT_OPERATOR_TOKEN"),
        api_url=(environment.get("GITHUB_API_URL", "").strip() or "https://api.github.com").rstrip("/"),
        verify=environment.get("PREFLIGHT_CA_FILE") or True,
    )


def can_be_public(url: str) -> bool:
    """Whether pages may be shown at this address."""
    try:
        return bool(_public_url(url))
    except InputError:
        return False


def _public_url(url: str) -> str:
    """Its reports hold code and its cookies open them: nothing but TLS carries them over a network."""
    if not url:
        return ""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise InputError(f"PREFLIGHT_PUBLIC_URL: not the address of a server: {url!r}")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise InputError("PREFLIGHT_PUBLIC_URL: must start with https:// (http:// is for loopback addresses)")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
