"""``GET /metrics``: what all processes counted, and the state of queues and budgets at this moment."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from rq import Queue, Worker
from rq.serializers import JSONSerializer

from bot.queue import names
from bot.store import Client, Keys
from bot.telemetry.meter import BUCKETS
from bot.telemetry.names import COUNTERS, HISTOGRAMS

_MAX_INSTALLATIONS = 1_000
_DEPTH = "preflight_queue_jobs"
_AGE = "preflight_queue_age_seconds"
_AGE_SAID = "How long the job at the front waits for a worker: scale on this"


class Collector:
    """Reads Redis once for each scrape."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def collect(self) -> Iterator[Metric]:
        """What prometheus-client asks for."""
        yield from _counted(self._client.hgetall(self._keys.metrics()))
        yield from self._queues()
        yield from self._reviews()
        yield from self._budgets()
        info = GaugeMetricFamily("preflight_info", "The version that answers", labels=["version"])
        info.add_metric([_version()], 1)
        yield info

    def _queues(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily(_DEPTH, "Jobs that wait for a worker", labels=["queue"])
        delayed = GaugeMetricFamily("preflight_delayed_jobs", "Jobs that were put off", labels=["queue"])
        age = GaugeMetricFamily(_AGE, _AGE_SAID, labels=["queue"])
        for name in (names.FAST, names.REVIEW):
            queue = Queue(name, connection=self._client, serializer=JSONSerializer)
            depth.add_metric([name], self._client.llen(queue.key))
            delayed.add_metric([name], queue.scheduled_job_registry.count)
            age.add_metric([name], self._age(queue))
        yield from (depth, delayed, age)
        alive = Worker.all_keys(connection=self._client)
        found = self._client.exists(*alive) if alive else 0
        yield GaugeMetricFamily("preflight_workers", "rq workers that are alive", value=float(found))

    def _age(self, queue: Queue) -> float:
        front: Any = self._client.lindex(queue.key, 0)
        if front is None:
            return 0.0
        stamp: Any = self._client.hget(f"rq:job:{str(front, 'utf-8')}", "enqueued_at")
        return max(0.0, time.time() - _seconds(str(stamp, "utf-8"))) if stamp else 0.0

    def _reviews(self) -> Iterator[Metric]:
        key = self._keys.open_reviews()
        yield GaugeMetricFamily(
            "preflight_open_reviews", "Reviews that are not concluded", value=float(self._client.zcard(key))
        )
        first: Any = self._client.zrange(key, 0, 0, withscores=True)
        overdue = max(0.0, time.time() - first[0][1]) if first else 0.0
        yield GaugeMetricFamily(
            "preflight_sweep_overdue_seconds", "How long the oldest review waits for the sweeper", value=overdue
        )

    def _budgets(self) -> Iterator[Metric]:
        left = GaugeMetricFamily(
            "preflight_github_remaining", "GitHub's hourly requests left, when last heard", labels=["installation"]
        )
        limit = GaugeMetricFamily("preflight_github_limit", "GitHub's hourly requests", labels=["installation"])
        paused = GaugeMetricFamily(
            "preflight_github_pause_seconds", "GitHub asked for a pause of so long", labels=["installation"]
        )
        heard: Any = self._client.hgetall(self._keys.budgets())
        for name, text in list(heard.items())[:_MAX_INSTALLATIONS]:
            installation = str(name, "utf-8")
            remaining, most, reset = json.loads(text)
            is_over = reset < time.time()  # the hour ended: all of it is there again
            left.add_metric([installation], most if is_over else remaining)
            limit.add_metric([installation], most)
            until: Any = self._client.get(self._keys.pause(int(installation))) if installation.isdecimal() else None
            if until:
                paused.add_metric([installation], max(0.0, float(until) - time.time()))
        yield from (left, limit, paused)


def render(client: Client, keys: Keys) -> bytes:
    """The page in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(client, keys))
    return generate_latest(registry)


def _counted(fields: Any) -> Iterable[Metric]:
    """The families of what `Meter` wrote; a name that this version does not know is left out."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for field, value in fields.items():
        name, *labels = json.loads(field)
        found.setdefault(name, []).append((dict(labels), float(value)))
    for name, said in COUNTERS.items():
        rows = found.get(name, [])
        keys = sorted(rows[0][0]) if rows else []
        counter = CounterMetricFamily(name, said, labels=keys)
        for labels, value in rows:
            counter.add_metric([labels.get(key, "") for key in keys], value)
        yield counter
    for name, said in HISTOGRAMS.items():
        yield _histogram(name, said, found.get(f"{name}_bucket", []), found.get(f"{name}_sum", []))


def _histogram(
    name: str, said: str, buckets: list[tuple[dict[str, str], float]], sums: list[tuple[dict[str, str], float]]
) -> Metric:
    counts: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for labels, value in buckets:
        rest = tuple(sorted((key, text) for key, text in labels.items() if key != "le"))
        counts.setdefault(rest, {})[labels["le"]] = value
    totals = {tuple(sorted(labels.items())): value for labels, value in sums}
    keys = [key for key, _ in next(iter(counts), ())]
    family = HistogramMetricFamily(name, said, labels=keys)
    for rest, by_bound in counts.items():
        running, rows = 0.0, []
        for bound in [*(repr(one) for one in BUCKETS), "+Inf"]:
            running += by_bound.get(bound, 0.0)
            rows.append((bound, running))
        family.add_metric([text for _, text in rest], rows, totals.get(rest, 0.0))
    return family


def _version() -> str:
    try:
        return version("preflight-bot")
    except PackageNotFoundError:
        return "unknown"


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
