"""More of GitHub's bad days, one fault each: one review, nothing doubled, both checks concluded, no token anywhere."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from bot.demo.stack import Stack
from bot.store import connect
from tests.end_to_end.scene import CHECKS, Scene, findings
from tests.end_to_end.test_review import EXPECTED, _wait_quiet

_TOKEN = re.compile(rb"gh[a-z]_[A-Za-z0-9_.\-]{8,}|BEGIN [A-Z ]*PRIVATE KEY|eyJ[A-Za-z0-9_\-]{20,}")
_SEALED = re.compile(rb"gAAAA[A-Za-z0-9_\-]+=*")  # Fernet: random base64, may spell `ghb_` or `eyJ`
_UNAUTHORIZED = {"message": "Bad credentials"}


@pytest.fixture
def scene(stack: Stack, tmp_path: Path) -> Scene:
    stack.hub.ask("DELETE", "/faults")
    return Scene.build(stack, tmp_path)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "method": "POST", "path": "/issues/1/comments$", "status": 502, "perform": True},
        {"kind": "lose", "method": "POST", "path": "/issues/1/comments$"},
        {"kind": "status", "method": "POST", "path": "/check-runs$", "status": 502, "perform": True},
        {"kind": "status", "method": "POST", "path": "/check-runs$", "status": 500, "count": 2},
        {"kind": "lose", "method": "PATCH", "path": "/check-runs/"},
        {"kind": "status", "path": "/compare/", "status": 401, "body": _UNAUTHORIZED},
        {"kind": "status", "method": "POST", "path": "/pulls/1/reviews$", "status": 401, "body": _UNAUTHORIZED},
        {"kind": "status", "path": "/git/trees/", "status": 502, "count": 2},
        {"kind": "status", "path": "/compare/", "status": 503, "count": 6},
        {"kind": "status", "path": "/pulls/1$", "status": 404, "body": {"message": "Not Found"}, "skip": 9},
        {"kind": "delay", "method": "POST", "path": "/pulls/1/reviews$", "seconds": 3.0},
    ],
    ids=lambda fault: "-".join(str(fault.get(key, "")) for key in ("kind", "method", "path", "status")),
)
def test_one_review_and_two_conclusions(scene: Scene, fault: dict[str, Any]) -> None:
    scene.fault(**fault)
    scene.open().concluded()
    _wait_quiet(scene, 2.0)
    seen = scene.seen()
    assert len(seen["reviews"]) == 1
    assert findings(seen) >= EXPECTED
    assert sorted(run["name"] for run in seen["check_runs"]) == sorted(CHECKS)
    markers = [item["body"].partition("\n")[0] for item in seen["review_comments"] + seen["conversation"]]
    assert len(markers) == len(set(markers))


def test_a_permission_that_was_taken_away_is_said(scene: Scene) -> None:
    body = {"message": "Resource not accessible by integration"}
    scene.fault(kind="status", method="POST", path="/pulls/1/reviews$", status=403, count=50, body=body)
    seen = scene.open().concluded()
    assert {run["conclusion"] for run in seen["check_runs"]} == {"neutral"}
    assert all("Resource not accessible" in run["output"]["summary"] for run in seen["check_runs"])


def test_a_repository_that_is_gone_keeps_nobody_busy(scene: Scene) -> None:
    scene.fault(kind="status", path="", status=404, count=1_000, body={"message": "Not Found"})
    client = connect(scene.stack.redis_url)
    scene.open()
    scene.stack.hub.until(lambda: not client.zcard(_space(client) + b":reviews"), 60, "the review is forgotten")
    client.close()


def _space(client: Any) -> bytes:
    """The namespace of the running stack."""
    keys: list[bytes] = client.keys("preflight-demo-*:claim:*")
    return keys[0].split(b":")[0]


def test_no_token_is_written_down(scene: Scene) -> None:
    """After everything above: logs, Redis (job data and results unpacked), what people see."""
    scene.open().concluded()
    scene.answer_after(scene.comment("/preflight estimate A100", "dana"))
    for process in scene.stack.processes.values():
        assert not _TOKEN.search(process.log.read_bytes()), process.name
    client = connect(scene.stack.redis_url)
    for key in client.scan_iter():
        for value in _values(client, key):
            assert not _TOKEN.search(value), key
    client.close()
    assert not _TOKEN.search(str(scene.seen()).encode())


def _values(client: Any, key: bytes) -> list[bytes]:
    kind = client.type(key)
    read: dict[bytes, Any] = {
        b"string": lambda: [client.get(key)],
        b"hash": lambda: list(client.hgetall(key).values()),
        b"list": lambda: client.lrange(key, 0, -1),
        b"set": lambda: list(client.smembers(key)),
        b"zset": lambda: client.zrange(key, 0, -1),
        b"stream": lambda: [value for _, fields in client.xrange(key) for value in fields.values()],
    }
    found = read[kind]() if kind in read else []
    both = [*filter(None, found), *(_unpacked(value) for value in found if value)]
    return [_SEALED.sub(b"", value) for value in both]


def _unpacked(value: bytes) -> bytes:
    try:
        return zlib.decompress(value)
    except zlib.error:
        return b""
