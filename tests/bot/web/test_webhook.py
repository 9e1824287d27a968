"""The door: what gets in, what does not, and that nothing is queued for the latter. Real gunicorn, real Valkey."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from bot.redis_server import own_server
from bot.settings import Secret
from bot.web.webhook import MAX_BODY_BYTES, signature_is_right
from tests.bot.queue.stack import free_port
from tests.support import WEBHOOK_SECRET, wait_for

SHA = "a" * 40
OPENED = {
    "action": "opened",
    "number": 7,
    "pull_request": {"state": "open", "draft": False, "merged": False, "head": {"sha": SHA}},
    "repository": {"id": 1, "full_name": "acme/training"},
    "installation": {"id": 2},
    "sender": {"login": "dana", "type": "User"},
}


def sign(body: bytes, secret: str = WEBHOOK_SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@dataclass
class Door:
    address: str

    def post(self, payload: Any = OPENED, *, body: bytes | None = None, **headers: str | None) -> requests.Response:
        body = json.dumps(payload).encode() if body is None else body
        given = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "pull_request",
            "X-GitHub-Delivery": str(uuid.uuid4()),
            "X-Hub-Signature-256": sign(body),
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in given.items() if value is not None}
        return requests.post(f"http://{self.address}/webhook", data=body, headers=sent, timeout=30)


@pytest.fixture
def door(client: redis.Redis, redis_url: str, preflight: Callable[..., subprocess.Popen[bytes]]) -> Door:
    return open_door(redis_url, preflight)


def open_door(redis_url: str, preflight: Callable[..., subprocess.Popen[bytes]]) -> Door:
    address = f"127.0.0.1:{free_port()}"
    preflight(
        "serve",
        "--bind",
        address,
        "--processes",
        "1",
        REDIS_URL=redis_url,
        PREFLIGHT_WEBHOOK_SECRET=WEBHOOK_SECRET,
        PREFLIGHT_WEBHOOK_SECRET_PREVIOUS="the-secret-before-this-one",
    )
    wait_for(lambda: _is_up(address), 20, "the receiver answers")
    return Door(address)


def _is_up(address: str) -> bool:
    try:
        return requests.get(f"http://{address}/healthz", timeout=1).ok
    except requests.RequestException:
        return False


def test_github_vector() -> None:
    secret = [Secret("It's a Secret to Everybody")]
    header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signature_is_right(b"Hello, World!", header, secret)
    assert not signature_is_right(b"Hello, World?", header, secret)
    assert not signature_is_right(b"Hello, World!", None, secret)


def test_what_gets_in(door: Door, client: redis.Redis) -> None:
    fixed = str(uuid.uuid4())
    first = door.post(X_GitHub_Delivery=fixed)
    assert (first.status_code, first.json()["message"]) == (202, "accepted")
    again = door.post(X_GitHub_Delivery=fixed)
    assert (again.status_code, again.json()["message"]) == (202, "already accepted")
    assert client.llen("rq:queue:preflight-fast") == 1
    body = json.dumps(OPENED).encode()
    old = door.post(body=body, X_Hub_Signature_256=sign(body, "the-secret-before-this-one"))
    assert old.status_code == 202
    ping = door.post({"zen": "Keep it simple"}, X_GitHub_Event="ping")
    assert ping.status_code == 200
    unknown = door.post({"action": "sung"}, X_GitHub_Event="whale")
    assert unknown.status_code == 202
    assert "whale" in unknown.json()["reason"]
    assert client.llen("rq:queue:preflight-fast") == 2


def _refused(door: Door) -> list[tuple[str, int, requests.Response]]:
    body = json.dumps(OPENED).encode()
    form = b"payload=%7B%7D"
    return [
        ("wrong signature", 401, door.post(X_Hub_Signature_256="sha256=" + "0" * 64)),
        ("no signature", 401, door.post(X_Hub_Signature_256=None)),
        ("SHA-1 only", 401, door.post(X_Hub_Signature_256=None, X_Hub_Signature="sha1=" + "0" * 40)),
        ("form", 415, door.post(body=form, Content_Type="application/x-www-form-urlencoded")),
        ("no type", 415, door.post(Content_Type=None)),
        ("not JSON", 400, door.post(body=b"{")),
        ("not an object", 400, door.post(body=b"[]")),
        ("deep", 400, door.post(body=b"[" * 200_000)),
        ("lacks a key", 400, door.post({**OPENED, "installation": None})),
        ("no delivery id", 400, door.post(X_GitHub_Delivery=None)),
        ("odd delivery id", 400, door.post(X_GitHub_Delivery="a b:c")),
        ("too long", 413, door.post(body=b" " * (MAX_BODY_BYTES + 1))),
        ("GET", 405, requests.get(f"http://{door.address}/webhook", timeout=5)),
        ("non-ASCII", 401, _raw(door, body, "sha256=ünïcode".encode())),
    ]


def test_what_does_not_get_in(door: Door, client: redis.Redis) -> None:
    for what, status, answer in _refused(door):
        assert answer.status_code == status, what
    assert not client.keys("*")


def _raw(door: Door, body: bytes, signature: bytes) -> requests.Response:
    host, port = door.address.split(":")
    head = (
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: pull_request\r\n"
        b"X-GitHub-Delivery: 1\r\nConnection: close\r\nX-Hub-Signature-256: " + signature + b"\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=10) as plug:
        plug.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        answer = http.client.HTTPResponse(plug)
        answer.begin()
        response = requests.Response()
        response.status_code = answer.status
        return response


def test_over_long_chunked_body(door: Door, client: redis.Redis) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(27):
            yield b" " * (1 << 20)

    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "pull_request",
        "X-GitHub-Delivery": "1",
        "X-Hub-Signature-256": "sha256=" + "0" * 64,
    }
    try:
        answer = requests.post(f"http://{door.address}/webhook", data=chunks(), headers=headers, timeout=30)
    except requests.ConnectionError:
        pass  # cut off while it was still sending
    else:
        assert answer.status_code == 413
    assert not client.keys("preflight:*")


def test_redis_down_is_a_quick_503_and_the_redelivery_succeeds(
    tmp_path: Path, preflight: Callable[..., subprocess.Popen[bytes]]
) -> None:
    data = tmp_path / "r"
    delivery = str(uuid.uuid4())
    with own_server(data) as url:
        door = open_door(url, preflight)
    start = time.monotonic()
    assert door.post(X_GitHub_Delivery=delivery).status_code == 503
    assert time.monotonic() - start < 8
    assert requests.get(f"http://{door.address}/readyz", timeout=10).status_code == 503
    assert requests.get(f"http://{door.address}/healthz", timeout=10).status_code == 200
    with own_server(data) as url_again:
        assert url_again == url
        assert door.post(X_GitHub_Delivery=delivery).json()["message"] == "accepted"
        assert requests.get(f"http://{door.address}/readyz", timeout=10).json() == {"redis": "ok", "workers": 0}


def test_the_door_loads_neither_analyzer_nor_github() -> None:
    code = (
        "import sys, bot.web.app; bad = {'libcst', 'github', 'estimator.api', 'analyzer.api'} & set(sys.modules);"
        " sys.exit(str(bad) if bad else 0)"
    )
    import sys

    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
