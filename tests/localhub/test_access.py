"""Who is let in: the app's JWT, installation tokens, permissions, scope."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import jwt
import pytest
import requests

from bot.localhub.access import NEEDS
from bot.localhub.app import create_app
from bot.localhub.clock import now
from tests.localhub.world import World, new_key


def _app_call(world: World, claims: dict[str, Any], key: str | None = None, path: str = "/app") -> requests.Response:
    token = jwt.encode(claims, key or world.private_key, algorithm="RS256")
    return requests.get(world.server.api_url + path, headers={"Authorization": f"Bearer {token}"}, timeout=10)


def _claims(world: World, **changed: Any) -> dict[str, Any]:
    moment = int(time.time())
    return {"iat": moment - 60, "exp": moment + 300, "iss": str(world.app.id)} | changed


def test_a_good_jwt_is_let_in(world: World) -> None:
    assert _app_call(world, _claims(world)).json()["slug"] == "preflight"


@pytest.mark.parametrize(
    ("changed", "status", "words"),
    [
        ({"exp": -5}, 401, "Expiration time"),
        ({"exp": 3600}, 401, "too far in the future"),
        ({"iat": 600}, 401, "Issued at"),
        ({"iss": ""}, 401, "issuer"),
        ({"iss": "7"}, 404, "Integration not found"),
    ],
)
def test_a_bad_claim_is_refused(world: World, changed: dict[str, Any], status: int, words: str) -> None:
    moment = int(time.time())  # numbers are seconds from now: the parameters are made when tests are collected
    claims = {name: moment + value if isinstance(value, int) else value for name, value in changed.items()}
    answer = _app_call(world, _claims(world, **claims))
    assert answer.status_code == status
    assert words in answer.json()["message"]


def test_a_jwt_of_another_key_or_algorithm_is_refused(world: World) -> None:
    assert _app_call(world, _claims(world), new_key()[0]).status_code == 401
    forged = jwt.encode(_claims(world), "x" * 40, algorithm="HS256")
    answer = requests.get(world.server.api_url + "/app", headers={"Authorization": f"Bearer {forged}"}, timeout=10)
    assert answer.status_code == 401


def test_an_unknown_installation_is_404(world: World) -> None:
    headers = {"Authorization": f"Bearer {world.jwt()}"}
    answer = requests.post(f"{world.server.api_url}/app/installations/1/access_tokens", headers=headers, timeout=10)
    assert answer.status_code == 404


@pytest.mark.parametrize("header", [None, "Bearer ghs_wrong", "Basic abc", "Bearer"])
def test_without_a_good_token_it_is_401(world: World, header: str | None) -> None:
    url = f"{world.server.api_url}/repos/acme/trainer"
    answer = requests.get(url, headers={"Authorization": header} if header else {}, timeout=10)
    assert answer.status_code == 401


def test_a_token_expires(world: World) -> None:
    token = world.token()
    world.server.service.hub.rows.tokens[token].expires_at = now() - timedelta(seconds=1)
    assert world.call("GET", "", token=token).status_code == 401


def test_a_missing_permission_is_403_and_another_repository_404(world: World) -> None:
    reader = world.token(permissions={"checks": "read"})
    refused = world.call("POST", "/check-runs", {"name": "x", "head_sha": world.pull.head_sha}, token=reader)
    assert (refused.status_code, refused.json()["message"]) == (403, "Resource not accessible by integration")
    hub = world.server.service.hub
    other = hub.add_repository("acme/other", world.source)
    narrowed = world.token(repository_ids=[other.id])
    assert world.call("GET", "", token=narrowed).status_code == 404
    foreign = hub.add_repository("elsewhere/secret", world.source)
    url = f"{world.server.api_url}/repos/{foreign.full_name}"
    assert requests.get(url, headers={"Authorization": f"Bearer {world.token()}"}, timeout=10).status_code == 404


def test_a_token_cannot_ask_for_more_than_the_installation_has(world: World) -> None:
    headers = {"Authorization": f"Bearer {world.jwt()}"}
    url = f"{world.server.api_url}/app/installations/{world.installation.id}/access_tokens"
    answer = requests.post(url, json={"permissions": {"contents": "write"}}, headers=headers, timeout=10)
    assert answer.status_code == 422


def test_every_api_route_says_which_permission_it_needs(world: World) -> None:
    app = create_app(world.server.service)
    areas = {"app", "repos", "pulls", "reviews", "issues", "checks", "graphql", "gitdata", "user"}
    routes = {rule.endpoint for rule in app.url_map.iter_rules() if rule.endpoint.partition(".")[0] in areas}
    assert routes == set(NEEDS) - {"registration.convert"}  # the one that a browser's way back is the key to


def test_headers_that_github_refuses(world: World) -> None:
    assert world.call("GET", "", Accept="image/png").status_code == 415
    assert world.call("GET", "", **{"X-GitHub-Api-Version": "1999-01-01"}).status_code == 400
    assert world.call("GET", "", **{"X-GitHub-Api-Version": "2022-11-28"}).headers["X-RateLimit-Limit"] == "5000"


def test_no_token_is_recorded(world: World) -> None:
    token = world.token()
    recorded = repr(world.server.service.recorder.all())
    assert "access_tokens" in recorded
    assert token not in recorded
