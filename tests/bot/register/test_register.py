"""`preflight register` as a process, the local GitHub as GitHub, requests as the browser."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import jwt
import pytest
import requests
from cryptography.hazmat.primitives import serialization

from bot.errors import InputError
from bot.localhub.server import Server
from bot.manifest import load
from bot.register.files import Folder
from bot.register.flow import Flow, github_at
from bot.settings import web_settings, worker_settings
from tests.bot.register.browser import Browser

HOOK = "http://127.0.0.1:9/webhook"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "hub") as server:
        yield server


@contextmanager
def registering(hub: Server, where: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", "-m", "preflight", "register", "--github", hub.url, "--no-browser"]
    process = subprocess.Popen(
        [*command, "--webhook-url", HOOK, "--output", "app", "--timeout", "60", *more],
        cwd=where,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def _form(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert found, line + process.stdout.read()
    return found[0]


def test_the_whole_flow_writes_secrets_that_work(hub: Server, tmp_path: Path) -> None:
    browser = Browser()
    with registering(hub, tmp_path, "--org", "acme", "--name", "acme-preflight") as process:
        browser.open(_form(process))
        assert "acme-preflight" in browser.press()  # to GitHub, which shows what it was sent
        assert "pull_requests" in browser.page
        assert "merge_group" not in browser.page, "GitHub Enterprise Server does not know the event"
        assert "The secrets are written" in browser.press()  # GitHub's button, and back with the code
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    folder = tmp_path / "app"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    texts = {}
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        texts[file.name] = file.read_text().strip()
    assert set(texts) == {"private-key.pem", "webhook-secret", "client-secret", "preflight.env"}
    for secret in ("private-key.pem", "webhook-secret", "client-secret"):
        assert texts[secret] not in output + browser.page + texts["preflight.env"]
    lines = (line for line in texts["preflight.env"].splitlines() if not line.startswith("#"))
    environment = {"REDIS_URL": "redis://h/0"} | dict(line.split("=", 1) for line in lines)
    worker = worker_settings(environment)
    app = next(iter(hub.service.hub.rows.apps.values()))
    assert (worker.app_id, worker.api_url) == (str(app.id), hub.api_url)
    key = serialization.load_pem_private_key(worker.private_key.reveal().encode(), None)
    token = jwt.encode({"iss": str(app.id), "iat": 0, "exp": 9_999_999_999}, key, algorithm="RS256")  # type: ignore[arg-type]
    jwt.decode(token, app.public_key, algorithms=["RS256"], options={"verify_iat": False})
    assert web_settings(environment).webhook_secrets[0].reveal() == app.webhook_secret
    assert (app.owner.login, app.webhook_url) == ("acme", HOOK)


def test_it_refuses_before_anything_could_be_lost(hub: Server, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "private-key.pem").write_text("old")
    with registering(hub, tmp_path) as process:
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, "--force moves it aside" in output) == (2, True)
    with registering(hub, tmp_path, "--force") as process:
        browser = Browser()
        browser.open(_form(process))
        browser.press()
        browser.press()
        process.communicate(timeout=60)
    assert process.returncode == 0
    (aside,) = tmp_path.glob("app.old-*")
    assert (aside / "private-key.pem").read_text() == "old"
    assert (tmp_path / "app" / "preflight.env").is_file()


def test_what_is_no_way_back_changes_nothing(hub: Server, tmp_path: Path) -> None:
    with registering(hub, tmp_path, "--timeout", "20") as process:
        address = _form(process)
        port = urlsplit(address).port
        assert requests.get(f"{address}/callback?code=abc&state=wrong", timeout=10).status_code == 400
        assert requests.get(f"{address}/callback?code=abc", timeout=10).status_code == 400
        assert requests.get(f"{address}/elsewhere", timeout=10).status_code == 404
        rebound = requests.get(f"{address}/", headers={"Host": f"evil.example:{port}"}, timeout=10)
        assert (rebound.status_code, "state" in rebound.text) == (403, False)
        browser = Browser()
        state = re.findall(r"state=([\w-]+)", browser.open(address))[0]
        answer = requests.get(f"{address}/callback?code=never-given&state={state}", timeout=30)
        assert answer.status_code == 502
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, "GitHub refused the code (404)" in output) == (2, True)
    assert not (tmp_path / "app").exists()


def test_nobody_comes_back(tmp_path: Path) -> None:
    flow = Flow(github_at("https://github.com"), lambda url: {"name": "x", "hook_attributes": {"url": HOOK}}, print)
    with pytest.raises(InputError, match="nothing was written"):
        flow.run(0.2)


@pytest.mark.parametrize("url", ["github.com", "ftp://x", "https://h/path"])
def test_a_github_is_an_address(url: str) -> None:
    with pytest.raises(InputError, match="--github"):
        github_at(url)


def test_githubs_addresses() -> None:
    assert github_at("https://github.com").api_url == "https://api.github.com"
    assert (
        github_at("https://ghe.example.com", "lab").form_url
        == "https://ghe.example.com/organizations/lab/settings/apps/new"
    )


@pytest.mark.parametrize(
    ("name", "hook", "words"),
    [
        ("x" * 35, HOOK, "--name"),
        ("ok", "127.0.0.1/webhook", "--webhook-url"),
        ("ok", "https://preflight.example.org/webhook", "placeholder"),
        ("ok", "https://bots.lab.example/", "at /webhook: https://bots.lab.example/webhook"),
    ],
)
def test_what_github_would_refuse_is_said_first(name: str, hook: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load().filled(name=name, webhook_url=hook, redirect_url="http://127.0.0.1:1/callback")


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bot.register.files._write", broken)
    with pytest.raises(OSError, match="No space"):
        Folder(tmp_path / "app").write({"id": 1, "pem": "p", "webhook_secret": "s"}, "https://h", "https://p")
    assert list(tmp_path.iterdir()) == []
