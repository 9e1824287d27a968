"""Two private keys: a worker that holds both goes on whichever of them GitHub knows, and reads what either wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jwt
import pytest
import redis
import responses
from cryptography.hazmat.primitives import serialization

from bot.errors import PreflightError
from bot.github.auth import AppCredentials
from bot.settings import Secret, WorkerSettings
from bot.store import Keys
from tests.bot.github.conftest import API
from tests.localhub.world import new_key


def _public(private_key: str) -> Any:
    return serialization.load_pem_private_key(private_key.encode(), None).public_key()


@pytest.fixture
def other(private_key: str) -> str:
    return new_key()[0]


def _only(github: responses.RequestsMock, known: str, token: dict[str, Any]) -> list[str]:
    """GitHub knows one key; the answers it gave."""
    given: list[str] = []

    def answer(request: Any) -> tuple[int, dict[str, str], str]:
        try:
            jwt.decode(
                request.headers["Authorization"].split()[1],
                _public(known),
                algorithms=["RS256"],
                options={"verify_iat": False},
            )
        except jwt.PyJWTError:
            given.append("refused")
            return 401, {}, '{"message": "A JSON web token could not be decoded"}'
        given.append("taken")
        return 201, {}, json.dumps(token)

    github.remove(responses.POST, f"{API}/app/installations/5/access_tokens")
    github.add_callback(responses.POST, f"{API}/app/installations/5/access_tokens", answer)
    return given


TOKEN = {"token": "ghs_77_new", "expires_at": "2099-01-01T00:00:00Z", "permissions": {}}


def test_the_other_key_stands_in_for_a_refused_one(
    settings: WorkerSettings, github: responses.RequestsMock, client: redis.Redis, private_key: str, other: str
) -> None:
    both = replace(settings, private_key=Secret(other), previous_key=Secret(private_key))
    given = _only(github, private_key, TOKEN)
    credentials = AppCredentials(both, client, Keys())
    assert credentials.installation(5, 9).token == "ghs_77_new"
    assert credentials.installation(5, 9, fresh=True).token == "ghs_77_new"
    assert given == ["refused", "taken", "taken"], "the one that works is kept"
    with pytest.raises(PreflightError):
        AppCredentials(replace(both, previous_key=None), client, Keys()).installation(5, 9, fresh=True)


def test_a_cached_token_is_read_on_both_sides_of_a_rotation(
    settings: WorkerSettings, github: responses.RequestsMock, client: redis.Redis, private_key: str, other: str
) -> None:
    given = _only(github, private_key, TOKEN)
    AppCredentials(settings, client, Keys()).installation(5, 9)
    rotated = replace(settings, private_key=Secret(other), previous_key=Secret(private_key))
    assert AppCredentials(rotated, client, Keys()).installation(5, 9).token == "ghs_77_new"
    assert given == ["taken"], "the cache is not thrown away by a rotation"
