"""The write budget and the publisher lease, on a real server, with two workers' views of one installation."""

from __future__ import annotations

import time

import pytest
import redis

from bot.github.errors import RateLimited
from bot.github.limits import LeaseLost, Throttle
from bot.settings import Pace
from bot.store import Keys

KEYS = Keys()


def _throttle(client: redis.Redis, installation: int = 5, **pace: float) -> Throttle:
    values = {"seconds_between_writes": 0.0} | pace
    return Throttle(client, KEYS, installation, Pace(**values))  # type: ignore[arg-type]


def test_writes_keep_their_distance_across_workers(client: redis.Redis) -> None:
    start = time.monotonic()
    for _ in range(4):
        throttle = _throttle(client, seconds_between_writes=0.2)  # each is another worker
        with throttle.publishing():
            throttle.before_write()
    assert 0.55 < time.monotonic() - start < 2.0


def test_the_hour_s_budget_puts_the_job_off(client: redis.Redis) -> None:
    throttle = _throttle(client, writes_per_hour=2)
    with throttle.publishing():
        throttle.before_write()
        throttle.before_write()
        with pytest.raises(RateLimited) as caught:
            throttle.before_write()
    assert caught.value.retry_after == pytest.approx(3_600, abs=5)
    other = _throttle(client, installation=6, writes_per_hour=2)
    with other.publishing():
        other.before_write()


def test_one_publisher_at_a_time_and_who_lost_the_lease_does_not_write(client: redis.Redis) -> None:
    first, second = _throttle(client), _throttle(client)
    with first.publishing():
        first.before_write()
        client.delete(KEYS.publisher(5))  # it expired while the process was stopped
        with second.publishing():
            second.before_write()
            assert second.fence == first.fence + 1
            with pytest.raises(LeaseLost):
                first.before_write()
            second.before_write()  # the new holder is not disturbed
    assert not client.exists(KEYS.publisher(5))


def test_leaving_does_not_take_away_another_s_lease(client: redis.Redis) -> None:
    first, second = _throttle(client), _throttle(client)
    with first.publishing():
        client.delete(KEYS.publisher(5))
        context = second.publishing()
        context.__enter__()
    assert client.exists(KEYS.publisher(5))
    context.__exit__(None, None, None)
