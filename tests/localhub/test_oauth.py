"""Logging in through an app, as GitHub has it: one code, one use, one app, one browser."""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from tests.localhub.world import World

VERIFIER = "v" * 50
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
BACK = "http://127.0.0.1:9/login/callback"


def granted(world: World, login: str) -> str:
    """The code that a person's yes gives."""
    app = world.installation.app
    form = {
        "client_id": app.client_id,
        "redirect_uri": BACK,
        "state": "s",
        "code_challenge": CHALLENGE,
        "login": login,
    }
    url = f"{world.server.url}/login/oauth/authorize"
    answer = requests.post(url, data=form, allow_redirects=False, timeout=10)
    query = parse_qs(urlsplit(answer.headers["Location"]).query)
    assert query["state"] == ["s"]
    return query["code"][0]


def exchanged(world: World, granted_code: str, **changes: str) -> Any:
    app = world.installation.app
    body = {
        "client_id": app.client_id,
        "client_secret": app.client_secret,
        "code": granted_code,
        "redirect_uri": BACK,
        "code_verifier": VERIFIER,
    }
    return requests.post(f"{world.server.url}/login/oauth/access_token", data=body | changes, timeout=10).json()


def test_a_person_sees_what_they_may_read_and_no_more(world: World) -> None:
    hub = world.server.service.hub
    repo = hub.repository("acme", "trainer")
    repo.roles["rita"] = "read"
    codes = {}
    for login in ("rita", "mallory"):
        token = exchanged(world, granted(world, login))["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        assert requests.get(f"{world.server.api_url}/user", headers=headers, timeout=10).json()["login"] == login
        url = f"{world.server.api_url}/repositories/{repo.id}"
        codes[login] = requests.get(url, headers=headers, timeout=10).status_code
        pull = requests.get(f"{world.server.api_url}/repos/acme/trainer/pulls/1", headers=headers, timeout=10)
        assert pull.status_code == 403
    assert codes == {"rita": 200, "mallory": 404}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"client_secret": "x"}, "incorrect_client_credentials"),
        ({"code_verifier": "x"}, "bad_verification_code"),
        ({"redirect_uri": "http://evil.example/"}, "redirect_uri_mismatch"),
        ({"code": "x"}, "bad_verification_code"),
    ],
)
def test_a_code_is_good_for_its_own_login_only(world: World, changes: dict[str, str], error: str) -> None:
    assert exchanged(world, granted(world, "rita"), **changes)["error"] == error


def test_a_code_is_good_once(world: World) -> None:
    code = granted(world, "rita")
    assert exchanged(world, code)["token_type"] == "bearer"
    assert exchanged(world, code)["error"] == "bad_verification_code"
