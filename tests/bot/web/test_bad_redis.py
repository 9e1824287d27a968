"""Redis that hangs, is full, only reads or dies: a quick 503, nothing half accepted, and the redelivery gets in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
import requests

from bot import deliveries
from bot.intents import Intent
from bot.queue.claims import AlreadyAccepted, BeingAccepted, Claims
from bot.queue.enqueue import Enqueuer
from bot.redis_server import own_server
from bot.store import Keys, connect
from tests.bot.web.test_webhook import OPENED, Door, open_door
from tests.support import wait_for

QUEUE = "rq:queue:preflight-fast"
QUICK = 8.0  # seconds; GitHub hangs up after 10


@dataclass
class Bad:
    """A receiver, and a Redis that a test may hurt."""

    door: Door
    client: redis.Redis

    def red(self) -> bool:
        return requests.get(f"http://{self.door.address}/readyz", timeout=10).status_code == 503

    def refuses(self, delivery: str) -> None:
        start = time.monotonic()
        assert self.door.post(X_GitHub_Delivery=delivery).status_code == 503
        assert time.monotonic() - start < QUICK
        assert self.red()

    def takes_again(self, delivery: str) -> None:
        """Redelivered until it gets in, which is once."""
        wait_for(lambda: self.door.post(X_GitHub_Delivery=delivery).status_code == 202, 15, "the redelivery gets in")
        assert self.door.post(X_GitHub_Delivery=delivery).json()["message"] == "already accepted"
        assert self.client.llen(QUEUE) == 1


@pytest.fixture
def bad(tmp_path: Path, preflight: Callable[..., subprocess.Popen[bytes]]) -> Iterator[Bad]:
    with own_server(tmp_path / "r") as url:
        client = connect(url)
        yield Bad(open_door(url, preflight), client)
        client.close()


def test_a_full_redis(bad: Bad) -> None:
    delivery = str(uuid.uuid4())
    bad.client.config_set("maxmemory-policy", "noeviction")
    bad.client.config_set("maxmemory", 1)
    bad.refuses(delivery)
    bad.client.config_set("maxmemory", 0)
    bad.takes_again(delivery)


def test_a_redis_that_only_reads(bad: Bad) -> None:
    delivery = str(uuid.uuid4())
    bad.client.replicaof("127.0.0.1", 9)
    bad.refuses(delivery)
    bad.client.replicaof("NO", "ONE")
    bad.takes_again(delivery)


def test_a_redis_that_hangs_runs_our_commands_later(bad: Bad) -> None:
    """The claim is executed after we gave up: it must not lock the redelivery out."""
    delivery = str(uuid.uuid4())
    assert bad.door.post().status_code == 202  # a connection is open
    bad.client.delete(QUEUE)
    pid = int(bad.client.info("server")["process_id"])
    os.kill(pid, signal.SIGSTOP)
    try:
        bad.refuses(delivery)
    finally:
        os.kill(pid, signal.SIGCONT)
    bad.takes_again(delivery)


def test_the_same_delivery_twice_at_once(client: redis.Redis) -> None:
    claims = Claims(client, Keys())
    assert claims.take("one", (1, 7)) == 1
    with pytest.raises(BeingAccepted):
        claims.take("one", (1, 7))
    claims.give_back("one")
    assert claims.take("one", (1, 7)) == 2
    pipe = client.pipeline()
    claims.confirm("one", pipe)
    pipe.execute()
    claims.give_back("one")
    with pytest.raises(AlreadyAccepted):
        claims.take("one", (1, 7))
    assert claims.generation(1, 7) == 2, "who did not get in supersedes nothing"


def test_two_round_trips_a_delivery(client: redis.Redis, redis_url: str) -> None:
    """What the latency under load is made of; counted by the server."""
    enqueuer = Enqueuer(connect(redis_url), Keys())
    intent = _opened()
    enqueuer.deliver(intent, "warm-up")
    with client.monitor() as monitor:  # type: ignore[no-untyped-call]
        enqueuer.deliver(intent, "counted")
        client.set("that-was-all", "1")
        seen = []
        for entry in monitor.listen():
            if "that-was-all" in entry["command"]:
                break
            seen.append(entry)
    names = [entry["command"].split()[0].upper() for entry in seen if entry["client_type"] != "lua"]
    assert names.count("MULTI") == names.count("EXEC") == 1
    sent_alone = names[: names.index("MULTI")] + names[names.index("EXEC") + 1 :]
    assert [name for name in sent_alone if name not in {"HELLO", "CLIENT"}] == ["EVAL"]


def _opened() -> Intent:
    return deliveries.read("pull_request", json.loads(json.dumps(OPENED)))
