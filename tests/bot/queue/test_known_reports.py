"""Reports on single files in Redis: of one repository, for a time, and nothing where Redis does not answer."""

from __future__ import annotations

import os

import redis

from bot.queue.known_reports import KnownReports
from bot.store import KNOWN_REPORT_MAX_BYTES, KNOWN_REPORT_TTL, Keys, connect

KEY = "0" * 64


def test_an_entry_is_kept_for_a_time_and_for_its_repository(client: redis.Redis) -> None:
    store = KnownReports(client, Keys(), 7)
    store.put(KEY, b"entry")
    assert store.get(KEY) == b"entry"
    assert KnownReports(client, Keys(), 8).get(KEY) is None
    assert 0 < client.ttl(Keys().known_report(7, KEY)) <= KNOWN_REPORT_TTL
    client.expire(Keys().known_report(7, KEY), 60)
    store.get(KEY)  # what is used stays
    assert client.ttl(Keys().known_report(7, KEY)) > 60


def test_what_is_too_long_or_damaged_is_no_entry(client: redis.Redis) -> None:
    store = KnownReports(client, Keys(), 7)
    store.put(KEY, os.urandom(KNOWN_REPORT_MAX_BYTES))
    assert store.get(KEY) is None
    client.set(Keys().known_report(7, KEY), b"no zlib")
    assert store.get(KEY) is None


def test_without_redis_nothing_is_known() -> None:
    store = KnownReports(connect("redis://127.0.0.1:1", timeout=0.2), Keys(), 7)
    store.put(KEY, b"entry")
    assert store.get(KEY) is None
