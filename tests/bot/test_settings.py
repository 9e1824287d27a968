"""Settings: a missing or weak secret refuses to start and says which; a secret does not print."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from bot.errors import InputError
from bot.settings import Secret, web_settings, worker_settings

WEB = {"REDIS_URL": "redis://h/0", "PREFLIGHT_WEBHOOK_SECRET": "0123456789abcdef"}
WORKER = {
    "REDIS_URL": "redis://h/0",
    "PREFLIGHT_APP_ID": "1",
    "PREFLIGHT_PRIVATE_KEY": "-----BEGIN PRIVATE KEY-----\\nx",
}


def test_the_previous_private_key_stands_beside_the_current_one() -> None:
    assert [key.reveal() for key in worker_settings(WORKER).private_keys] == ["-----BEGIN PRIVATE KEY-----\nx"]
    both = worker_settings(WORKER | {"PREFLIGHT_PRIVATE_KEY_PREVIOUS": "-----BEGIN RSA PRIVATE KEY-----\ny"})
    assert [key.reveal()[-1] for key in both.private_keys] == ["x", "y"]
    with pytest.raises(InputError, match="PREFLIGHT_PRIVATE_KEY_PREVIOUS: not a PEM"):
        worker_settings(WORKER | {"PREFLIGHT_PRIVATE_KEY_PREVIOUS": "y"})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"PREFLIGHT_WEBHOOK_SECRET": ""}, "PREFLIGHT_WEBHOOK_SECRET"),
        ({"PREFLIGHT_WEBHOOK_SECRET": "development"}, "too weak"),
        ({"PREFLIGHT_WEBHOOK_SECRET_PREVIOUS": "short"}, "PREVIOUS"),
        ({"PREFLIGHT_WEBHOOK_SECRET_FILE": "/nowhere/at/all"}, "PREFLIGHT_WEBHOOK_SECRET_FILE"),
        ({"REDIS_URL": ""}, "REDIS_URL"),
        ({"REDIS_URL": "http://h"}, "REDIS_URL"),
    ],
)
def test_the_receiver_refuses_to_start(change: dict[str, str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        web_settings(WEB | change)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"PREFLIGHT_APP_ID": ""}, "PREFLIGHT_APP_ID"),
        ({"PREFLIGHT_PRIVATE_KEY": "nonsense"}, "PEM"),
        ({"GITHUB_API_URL": "ftp://h"}, "GITHUB_API_URL"),
        ({"PREFLIGHT_WRITES_PER_HOUR": "many"}, "PREFLIGHT_WRITES_PER_HOUR"),
        ({"PREFLIGHT_SWEEP_SECONDS": "-1"}, "PREFLIGHT_SWEEP_SECONDS"),
    ],
)
def test_the_worker_refuses_to_start(change: dict[str, str], named: str) -> None:
    with pytest.raises(InputError, match=named) as caught:
        worker_settings(WORKER | change)
    assert "nonsense" not in str(caught.value)


def test_secrets_from_files_and_never_in_text(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("from-a-file-0123456789\n")
    settings = web_settings({"REDIS_URL": "redis://h/0", "PREFLIGHT_WEBHOOK_SECRET_FILE": str(file)})
    assert [secret.reveal() for secret in settings.webhook_secrets] == ["from-a-file-0123456789"]
    assert "from-a-file" not in f"{settings!r} {settings.webhook_secrets[0]}"
    with pytest.raises(TypeError):
        pickle.dumps(Secret("x"))
    assert worker_settings(WORKER).api_url == "https://api.github.com"
