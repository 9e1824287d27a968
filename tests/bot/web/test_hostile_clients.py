"""Clients that are slow, repeat headers, or send odd JSON: others are served, and nothing is queued."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Callable

import pytest
import redis
import requests

from tests.bot.queue.stack import free_port
from tests.bot.web.test_webhook import OPENED, SHA, Door, open_door, sign
from tests.support import WEBHOOK_SECRET, wait_for

_THREADS = 2


@pytest.fixture
def door(client: redis.Redis, redis_url: str, preflight: Callable[..., subprocess.Popen[bytes]]) -> Door:
    return open_door(redis_url, preflight)


def test_silent_clients_do_not_hold_the_threads(
    client: redis.Redis, redis_url: str, preflight: Callable[..., subprocess.Popen[bytes]]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    options = ("--bind", address, "--processes", "1", "--threads", str(_THREADS))
    preflight("serve", *options, REDIS_URL=redis_url, PREFLIGHT_WEBHOOK_SECRET=WEBHOOK_SECRET)
    door = Door(address)
    wait_for(lambda: _healthy(door), 20, "the receiver answers")
    half_a_body = b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    half_a_head = b"POST /webhook HTTP/1.1\r\nHost: x\r\n"
    with contextlib.ExitStack() as plugs:
        for opening in [half_a_head] * _THREADS + [half_a_body] * _THREADS:
            host, port = address.split(":")
            plug = plugs.enter_context(socket.create_connection((host, int(port)), timeout=30))
            plug.sendall(opening)
        time.sleep(0.5)
        start = time.monotonic()
        assert door.post().status_code == 202
        assert time.monotonic() - start < 15
    assert client.llen("rq:queue:preflight-fast") == 1


def _healthy(door: Door) -> bool:
    try:
        return requests.get(f"http://{door.address}/healthz", timeout=1).ok
    except requests.RequestException:
        return False


def _pull(**more: object) -> dict[str, object]:
    return {**OPENED, **more}


WRONG_TYPES = {
    "a number no database holds": _pull(number=10**400),
    "a flag for a number": _pull(number=True),
    "a fraction": _pull(number=7.0),
    "text for a number": _pull(number="7"),
    "negative": _pull(number=-7),
    "a list": _pull(number=[7]),
    "action is a list": _pull(action=["opened"]),
    "pull_request is a list": _pull(pull_request=[]),
    "a branch for a commit": _pull(pull_request={"state": "open", "head": {"sha": "main"}}),
    "a commit and a newline": _pull(pull_request={"state": "open", "head": {"sha": SHA + "\n"}}),
    "a path for a repository": _pull(repository={"id": 1, "full_name": "acme/../x"}),
    "half a character": _pull(repository={"id": 1, "full_name": "acme/training\ud800"}),
    "an object for an id": _pull(installation={"id": {}}),
}
ODD_JSON = {
    "huge integer": b'{"number":' + b"9" * 5_000 + b"}",
    "NaN": b'{"number": NaN, "action": "opened"}',
    "deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "not text": b"\xff\xfe",
    "empty": b"",
    "null": b"null",
}


def test_wrong_types_and_odd_json_are_400(door: Door, client: redis.Redis) -> None:
    for what, payload in WRONG_TYPES.items():
        assert door.post(payload).status_code == 400, what
    for what, body in ODD_JSON.items():
        assert door.post(body=body).status_code == 400, what
    assert not client.keys("*")


def test_the_last_of_a_repeated_key_counts(door: Door, client: redis.Redis) -> None:
    """As in every JSON reader that is in use; the signature covers both."""
    text = json.dumps(OPENED)
    answer = door.post(body=b'{"number": "x",' + text[1:].encode())
    assert answer.status_code == 202


def test_a_repeated_signature_header_is_wrong(door: Door, client: redis.Redis) -> None:
    body = json.dumps(OPENED).encode()
    head = (
        "POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: pull_request\r\n"
        f"X-GitHub-Delivery: 1\r\nConnection: close\r\nX-Hub-Signature-256: {sign(body)}\r\n"
        f"X-Hub-Signature-256: sha256={'0' * 64}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    host, port = door.address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as plug:
        plug.sendall(head.encode() + body)
        assert b" 401 " in plug.recv(100)
    assert not client.keys("*")


def test_two_lengths_are_refused(door: Door, client: redis.Redis) -> None:
    body = json.dumps(OPENED).encode()
    head = (
        "POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: pull_request\r\n"
        f"X-GitHub-Delivery: 1\r\nX-Hub-Signature-256: {sign(body)}\r\n"
        f"Content-Length: {len(body)}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    host, port = door.address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as plug:
        plug.sendall(head.encode() + body)
        assert b" 202 " not in plug.recv(100)
    assert not client.keys("preflight:*")
