"""Settings of the pages: what is refused at the start, and what the absence of each means."""

from __future__ import annotations

import pytest

from bot.errors import InputError
from bot.pages.settings import can_be_public, page_settings
from tests.support import WEBHOOK_SECRET

FULL = {
    "PREFLIGHT_PUBLIC_URL": "https://preflight.example.org/",
    "PREFLIGHT_WEBHOOK_SECRET": WEBHOOK_SECRET,
    "PREFLIGHT_CLIENT_ID": "Iv1.abc",
    "PREFLIGHT_CLIENT_SECRET": "s" * 40,
}


def test_everything_set_means_links_and_a_login() -> None:
    found = page_settings(FULL)
    assert (found.has_links, found.has_login, found.is_https) == (True, True, True)
    assert found.public_url == "https://preflight.example.org"
    assert "s" * 40 not in repr(found)


@pytest.mark.parametrize(
    ("missing", "has_links", "has_login"),
    [
        ("PREFLIGHT_PUBLIC_URL", False, False),
        ("PREFLIGHT_WEBHOOK_SECRET", False, False),
        ("PREFLIGHT_CLIENT_ID", True, False),
        ("PREFLIGHT_CLIENT_SECRET", True, False),
    ],
)
def test_what_is_missing_is_off(missing: str, has_links: bool, has_login: bool) -> None:
    found = page_settings({name: value for name, value in FULL.items() if name != missing})
    assert (found.has_links, found.has_login) == (has_links, has_login)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PREFLIGHT_PUBLIC_URL", "http://preflight.example.org"),
        ("PREFLIGHT_PUBLIC_URL", "ftp://preflight.example.org"),
        ("PREFLIGHT_PUBLIC_URL", "preflight.example.org"),
        ("PREFLIGHT_PUBLIC_URL", "https://user:word@preflight.example.org"),
        ("PREFLIGHT_PUBLIC_URL", "https://preflight.example.org/?x=1"),
        ("PREFLIGHT_LINK_DAYS", "0"),
        ("PREFLIGHT_LINK_DAYS", "soon"),
        ("PREFLIGHT_REPORT_DAYS", "-1"),
        ("PREFLIGHT_OPERATOR_TOKEN", "short"),
        ("PREFLIGHT_OPERATOR_TOKEN_FILE", "/no/such/file"),
    ],
)
def test_a_setting_that_is_no_good_is_named(name: str, value: str) -> None:
    with pytest.raises(InputError, match=name.removesuffix("_FILE")):
        page_settings(FULL | {name: value})


@pytest.mark.parametrize(
    ("url", "can"),
    [
        ("https://preflight.example.org", True),
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("http://localhost:8000", True),
        ("http://10.0.0.8", False),
        ("http://localhost.example.org", False),
        ("", False),
    ],
)
def test_code_travels_over_tls_or_not_at_all(url: str, can: bool) -> None:
    assert can_be_public(url) is can


@pytest.mark.parametrize(
    ("api", "web"),
    [
        ("https://api.github.com", "https://github.com"),
        ("https://ghes.example.org/api/v3", "https://ghes.example.org"),
        ("https://api.acme.ghe.com", "https://acme.ghe.com"),
        ("http://127.0.0.1:9000/api/v3/", "http://127.0.0.1:9000"),
    ],
)
def test_people_log_in_where_the_api_belongs_to(api: str, web: str) -> None:
    assert page_settings(FULL | {"GITHUB_API_URL": api}).github_url == web
