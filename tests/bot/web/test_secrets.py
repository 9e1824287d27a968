"""Webhook secrets of a running receiver change with their files, both ways, and wrong signatures cost no reading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.settings import Secret, web_settings
from bot.web.app import create_app
from bot.web.secrets import WebhookSecrets
from tests.bot.web.test_webhook import sign

OLD, NEW = "old-secret-0123456789", "new-secret-0123456789"


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def _shown(secrets: tuple[Secret, ...]) -> list[str]:
    return [secret.reveal() for secret in secrets]


def test_files_are_read_again_after_a_miss_and_with_age(tmp_path: Path) -> None:
    file, clock, reads = tmp_path / "secret", _Clock(), []
    file.write_text(OLD)
    environment = {"REDIS_URL": "redis://h/0", "PREFLIGHT_WEBHOOK_SECRET_FILE": str(file)}

    def read() -> tuple[Secret, ...]:
        reads.append(clock.now)
        return web_settings(environment).webhook_secrets

    secrets = WebhookSecrets(read(), read, clock)
    file.write_text(NEW)
    assert _shown(secrets.current()) == [OLD], "not old enough to look"
    clock.now += 2
    assert _shown(secrets.after_a_miss()) == [NEW]
    assert _shown(secrets.current()) == [NEW]
    looked = len(reads)
    for _ in range(50):
        assert secrets.after_a_miss() == ()
    assert len(reads) == looked
    file.write_text(OLD)
    clock.now += 11
    assert _shown(secrets.current()) == [OLD], "what was taken away stops working without a restart"
    file.write_text("")
    clock.now += 11
    assert _shown(secrets.current()) == [OLD], "a half-written file changes nothing"


def test_a_receiver_takes_the_new_secret_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, previous = tmp_path / "secret", tmp_path / "previous"
    file.write_text(OLD)
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("PREFLIGHT_WEBHOOK_SECRET_FILE", str(file))
    monkeypatch.setattr("bot.web.secrets._PAUSE", 0.0)
    monkeypatch.setattr("bot.web.secrets._FRESH", 0.0)
    client = create_app().test_client()
    body = json.dumps({"zen": "x", "hook_id": 1}).encode()

    def ping(secret: str) -> int:
        headers = {"X-GitHub-Event": "ping", "X-GitHub-Delivery": "0f" * 16, "X-Hub-Signature-256": sign(body, secret)}
        return client.post("/webhook", data=body, content_type="application/json", headers=headers).status_code

    assert (ping(OLD), ping(NEW)) == (200, 401)
    previous.write_text(OLD)
    file.write_text(NEW)
    monkeypatch.setenv("PREFLIGHT_WEBHOOK_SECRET_PREVIOUS_FILE", str(previous))
    assert (ping(NEW), ping(OLD)) == (200, 200), "both hold while GitHub is told the new one"
    monkeypatch.delenv("PREFLIGHT_WEBHOOK_SECRET_PREVIOUS_FILE")
    assert (ping(NEW), ping(OLD)) == (200, 401)
