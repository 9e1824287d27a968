"""Addresses: the API's under ``/api/v3`` (as on GitHub Enterprise Server), the pages' without a prefix."""

from __future__ import annotations

from dataclasses import dataclass

API_PREFIX = "/api/v3"


@dataclass(frozen=True, slots=True)
class Urls:
    """`root` is scheme, host and port, without a slash at its end."""

    root: str

    def api(self, path: str) -> str:
        """An address of the API."""
        return f"{self.root}{API_PREFIX}{path}"

    def web(self, path: str) -> str:
        """An address of a page."""
        return f"{self.root}{path}"
