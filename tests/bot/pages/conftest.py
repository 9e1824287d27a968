"""A site with the report of a real review."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.bot.pages.pages import Site, build_site, document_of, page_settings_of


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    """The report of a pull request with bugs and a job that cannot fit."""
    return document_of()


@pytest.fixture
def site(client: redis.Redis, redis_url: str) -> Site:
    """Without a login."""
    return build_site(client, redis_url, page_settings_of())
