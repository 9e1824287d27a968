"""A gateway whose every request is answered by `responses` and checked against GitHub's description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis
import responses

from bot.github.gateway import Gateway
from bot.settings import Pace, Secret, WorkerSettings, WorkerTimes
from bot.store import Keys
from tests.bot.github.rules import faults_of
from tests.contract import Contract
from tests.contract import github as github_contract

API = "https://api.github.com:443"  # as PyGithub writes it
REPO = f"{API}/repos/acme/training"
SHA = "c" * 40


@pytest.fixture(scope="session")
def contract() -> Contract:
    return github_contract()


@pytest.fixture
def settings(private_key: str, redis_url: str) -> WorkerSettings:
    return WorkerSettings(
        redis_url=redis_url,
        namespace="preflight",
        app_id="77",
        private_key=Secret(private_key),
        api_url="https://api.github.com",
        verify=True,
        pace=Pace(seconds_between_writes=0.0),
        times=WorkerTimes(),
    )


@pytest.fixture
def github(contract: Contract, monkeypatch: pytest.MonkeyPatch) -> Iterator[responses.RequestsMock]:
    """GitHub; an installation token is there. What we send must be what GitHub's description allows."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        ends = (datetime.now(timezone.utc) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        token = {"token": "ghs_77_aaa.bbb-ccc.ddd", "expires_at": ends, "permissions": {}}
        mock.post(f"{API}/app/installations/5/access_tokens", json=token, status=201)
        mock.get(f"{API}/app", json={"slug": "preflight"})
        yield mock
        wrong = [
            line
            for call in mock.calls
            for line in faults_of(contract, str(call.request.method), str(call.request.url), sent(call))
        ]
        assert not wrong, "\n".join(wrong)


@pytest.fixture
def gateway(github: responses.RequestsMock, settings: WorkerSettings, client: redis.Redis) -> Gateway:
    return Gateway(settings, client, Keys(), installation_id=5, repo_id=9, full_name="acme/training")


def sent(call: Any) -> Any:
    """The JSON body of a recorded call."""
    return json.loads(call.request.body) if call.request.body else None


def run_json(run_id: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": run_id,
        "name": "preflight/code",
        "head_sha": SHA,
        "external_id": "",
        "status": "in_progress",
        "output": {"annotations_count": 0},
    } | more
