"""What several processes count is one page, in Prometheus's own format, for those who have the token."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from bot.github.limits import note_answer
from bot.intents import ReviewPull
from bot.queue.enqueue import Enqueuer
from bot.settings import Secret, WebSettings
from bot.store import Keys
from bot.telemetry.exposition import render
from bot.telemetry.meter import Meter
from bot.web.app import create_app
from tests.support import wait_for

_TOKEN = "a-metrics-token-of-the-tests"
_BUDGET = ("x-ratelimit-remaining", "x-ratelimit-limit", "x-ratelimit-reset")


def _page(client: redis.Redis) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = render(client, Keys()).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _settings(redis_url: str, token: str | None = None) -> WebSettings:
    return WebSettings(
        redis_url=redis_url,
        webhook_secrets=(Secret("a-secret-of-the-tests"),),
        app_id=1,
        namespace="preflight",
        metrics_token=Secret(token) if token else None,
    )


def test_counts_of_two_processes_add_up(client: redis.Redis) -> None:
    for _ in range(2):
        meter = Meter(client, Keys())
        meter.count("preflight_jobs", job="review_pull", outcome="done")
        meter.count("preflight_jobs", by=2, job="review_pull", outcome="superseded")
        for seconds in (0.02, 0.3, 1_000.0):
            meter.observe("preflight_job_seconds", seconds, job="review_pull", stage="read")
        meter.flush()
        meter.flush()
    page = _page(client)
    assert page["preflight_jobs_total", (("job", "review_pull"), ("outcome", "done"))] == 2
    assert page["preflight_jobs_total", (("job", "review_pull"), ("outcome", "superseded"))] == 4
    stage = (("job", "review_pull"), ("stage", "read"))
    assert page["preflight_job_seconds_count", stage] == 6
    assert page["preflight_job_seconds_sum", stage] == pytest.approx(2_000.64)
    for bound, count in (("0.5", 4), ("+Inf", 6)):
        labels = (("job", "review_pull"), ("le", bound), ("stage", "read"))
        assert page["preflight_job_seconds_bucket", labels] == count


def test_nothing_is_lost_while_redis_does_not_answer(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(**_: Any) -> Any:
        raise redis.ConnectionError

    meter = Meter(client, Keys())
    meter.count("preflight_failures", kind="bug")
    with monkeypatch.context() as patch:
        patch.setattr(client, "pipeline", gone)
        meter.flush()
    meter.flush()
    assert _page(client)["preflight_failures_total", (("kind", "bug"),)] == 1


def test_queues_and_budgets_are_those_of_this_moment(client: redis.Redis) -> None:
    now = int(time.time())
    for name, left, reset in (("7", "4200", now + 60), ("8", "3", now - 1)):
        note_answer(client, Keys(), name, "GET", 200, dict(zip(_BUDGET, (left, "5000", str(reset)), strict=True)))
    note_answer(client, Keys(), "8", "POST", 0, {})
    intent = ReviewPull(installation_id=7, repo_id=1, full_name="a/b", number=2, head_sha="a" * 40, reason="opened")
    Enqueuer(client, Keys()).deliver(intent, "d-1")
    page = _page(client)
    assert page["preflight_queue_jobs", (("queue", "preflight-fast"),)] == 1
    assert 0 <= page["preflight_queue_age_seconds", (("queue", "preflight-fast"),)] < 30
    assert page["preflight_open_reviews", ()] == 1
    assert page["preflight_github_remaining", (("installation", "7"),)] == 4200
    assert page["preflight_github_remaining", (("installation", "8"),)] == 5000, "its hour is over"
    labels = (("installation", "8"), ("status", "none"), ("verb", "POST"))
    assert page["preflight_github_requests_total", labels] == 1


@pytest.mark.parametrize(
    ("token", "header", "status"),
    [
        (None, f"Bearer {_TOKEN}", 404),
        (_TOKEN, "", 401),
        (_TOKEN, "Bearer wr\u00f6ng", 401),
        (_TOKEN, f"Bearer {_TOKEN}", 200),
    ],
)
def test_the_page_needs_its_token_and_without_one_there_is_no_page(
    client: redis.Redis, redis_url: str, token: str | None, header: str, status: int
) -> None:
    web = create_app(_settings(redis_url, token)).test_client()
    answer = web.get("/metrics", headers={"Authorization": header})
    assert answer.status_code == status
    assert _TOKEN not in answer.get_data(as_text=True)


def test_a_stranger_makes_no_series(client: redis.Redis, redis_url: str) -> None:
    web = create_app(_settings(redis_url)).test_client()
    for number in range(20):
        web.post("/webhook", json={}, headers={"X-GitHub-Event": f"e{number}"})
    name, labels = "preflight_deliveries_total", (("event", "other"), ("outcome", "not signed"))
    wait_for(lambda: _page(client).get((name, labels)) == 20, 30, "the counts are passed on")
    assert [key for key in _page(client) if key[0] == name] == [(name, labels)]
