"""Redis, and the workers behind it."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

import redis
from rq import Queue
from rq.job import Job
from rq.registry import FailedJobRegistry
from rq.serializers import JSONSerializer

from bot.doctor.line import Lines, fail, ok, warn
from bot.queue import names
from bot.redact import redact
from bot.store import Client, Keys, connect
from bot.web.health import live_workers

_MIN_VERSION = (6, 2)
_SLOW_SECONDS = 0.05
_OLD_SECONDS = 120.0
_LATE_SECONDS = 300.0


def look(url: str, namespace: str) -> Lines:
    """Everything about the queue; one line where Redis does not answer."""
    client, keys = connect(url, timeout=5), Keys(namespace)
    try:
        yield from _server(client, keys)
        yield from _workers(client, keys)
    except redis.RedisError as error:
        text = f"{type(error).__name__}: {redact(str(error))[:200]}"
        yield fail("redis", text, "start it, and check REDIS_URL, its password and the firewall")
    finally:
        client.close()


def _server(client: Client, keys: Keys) -> Lines:
    info: Any = client.info()
    engine = "valkey" if "valkey_version" in info else "redis"
    version = str(info.get("valkey_version") or info.get("redis_version", "0"))
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if parts < _MIN_VERSION:
        yield fail("redis", f"{engine} {version} is too old", "install 6.2 or newer")
    else:
        started = time.monotonic()
        client.set(keys.ready(), "1", ex=60)
        took = time.monotonic() - started
        slow = f"a write took {took * 1000:.0f} ms: GitHub waits for two of them at each webhook"
        good = f"{engine} {version}, writes in {took * 1000:.0f} ms"
        yield warn("redis", slow, "move it nearer") if took > _SLOW_SECONDS else ok("redis", good)
    if int(info.get("aof_enabled", 0)):
        status = str(info.get("aof_last_write_status", "ok"))
        if status == "ok":
            yield ok("redis persistence", "append-only file, last write good")
        else:
            yield fail("redis persistence", "the append-only file cannot be written", "is its disk full?")
    else:
        text = "no append-only file: queued reviews and claims are lost when it restarts"
        yield warn("redis persistence", text, "start it with deploy/redis.conf (appendonly yes)")
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        text = f"maxmemory-policy is {policy}: under pressure it throws queued jobs away"
        yield fail("redis eviction", text, "maxmemory-policy noeviction (deploy/redis.conf)")
    else:
        yield ok("redis eviction", "noeviction")
    most, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    if most and used > 0.8 * most:
        text = f"{used >> 20} of {most >> 20} MiB used"
        yield warn("redis memory", text, "give it more: full, it refuses webhooks")


def _workers(client: Client, keys: Keys) -> Lines:
    number = live_workers(client)
    if number:
        yield ok("workers", f"{number} alive")
    else:
        yield fail("workers", "none is alive", "start `preflight worker` with the same REDIS_URL")
    for name in (names.FAST, names.REVIEW):
        queue = Queue(name, connection=client, serializer=JSONSerializer)
        waiting, age = queue.count, _oldest(queue)
        text = f"{waiting} waiting, the oldest for {age:.0f} s"
        if age > _OLD_SECONDS:
            yield warn(f"queue {name}", text, "start more workers (`preflight worker -n`, or on more machines)")
        else:
            yield ok(f"queue {name}", text if waiting else "empty")
        failed = FailedJobRegistry(queue=queue).count
        if failed:
            text = f"{failed} jobs failed within a week"
            yield warn(f"queue {name}", text, "the workers' logs say why (outcome=failed)")
    now = time.time()
    late: Any = client.zcount(keys.open_reviews(), 0, now - _LATE_SECONDS)
    if int(late):
        text = f"{int(late)} reviews are overdue by more than {_LATE_SECONDS:.0f} s"
        yield warn("reviews", text, "is a `preflight worker` (whose sweeper concludes them) running?")


def _oldest(queue: Queue) -> float:
    ids = queue.get_job_ids(0, 1)
    if not ids:
        return 0.0
    jobs = Job.fetch_many(ids, connection=queue.connection, serializer=JSONSerializer)
    since = jobs[0].enqueued_at if jobs and jobs[0] is not None else None
    if since is None:
        return 0.0
    since = since if since.tzinfo else since.replace(tzinfo=timezone.utc)
    return max(0.0, (datetime.now(timezone.utc) - since).total_seconds())
