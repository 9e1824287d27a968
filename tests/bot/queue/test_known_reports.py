"""Reports on single files in Redis: of one repository, for a time, and nothing where Redis does not answer."""

from __future__ import annotations

import os

import pytest
import redis

from bot.github.pulls import PullInfo
from bot.queue.known_reports import KnownReports, fork_of
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


def test_a_fork_reads_the_repository_and_writes_for_itself(client: redis.Redis) -> None:
    ours, other = KnownReports(client, Keys(), 7), "1" * 64
    fork = KnownReports(client, Keys(), 7, "eve/trainer")
    ours.put(KEY, b"ours")
    assert fork.get(KEY) == b"ours"
    fork.put(KEY, b"poison")
    fork.put(other, b"poison")
    assert fork.get(KEY) == b"poison"
    assert ours.get(KEY) == b"ours"
    assert ours.get(other) is None
    assert KnownReports(client, Keys(), 7, "mallory/trainer").get(other) is None


@pytest.mark.parametrize(
    ("head", "fork"), [("acme/trainer", ""), ("Eve/Trainer", "eve/trainer"), (None, "#3")], ids=["own", "fork", "gone"]
)
def test_whose_entries_a_pull_request_writes(head: str | None, fork: str) -> None:
    pull = PullInfo(
        number=3,
        author="eve",
        title="",
        is_draft=False,
        is_open=True,
        base_ref="main",
        base_sha="",
        head_sha="",
        num_files=1,
        num_comments=0,
        num_review_comments=0,
        full_name="acme/trainer",
        web_url="",
        head_ref="x",
        head_full_name=head,
        default_branch="main",
    )
    assert fork_of(pull) == fork


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
