"""Counts in Redis: once for each pull request, with an expiry, without code; and who is shown them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest
import redis

from bot.core.tally import Counts, Kind
from bot.pages.statistics import Statistics
from bot.store import DAY, Keys
from tests.bot.pages.pages import Elements, Site, acting

NOW = 1_796_000_000.0  # 30 November 2026
KIND = Kind("PF101", "torch", "keeps the graph")
FOUND: Counts = {(KIND, "findings"): 3, (KIND, "fixed"): 2, (KIND, "kept"): 1, (KIND, "up"): 1}


@pytest.fixture
def statistics(client: redis.Redis) -> Statistics:
    return Statistics(client, Keys("pages"))


def by_rule(statistics: Statistics, months: int = 3, now: float = NOW) -> list[dict[str, Any]]:
    return [row.to_json() for row in statistics.rows(statistics.repositories(), "rule", months, now)]


def test_a_pull_request_that_is_counted_twice_counts_once(statistics: Statistics) -> None:
    for _ in range(3):
        statistics.count(5, 3, "acme/training", FOUND, NOW)
    statistics.count(5, 4, "acme/training", FOUND, NOW)
    [row] = by_rule(statistics)
    assert (row["findings"], row["fixed"], row["up"]) == (6, 4, 2)


def test_a_pull_request_that_is_closed_again_replaces_what_it_counted(statistics: Statistics) -> None:
    statistics.count(5, 3, "acme/training", FOUND, NOW)
    statistics.count(5, 3, "acme/training", {(KIND, "findings"): 3, (KIND, "dismissed"): 3}, NOW + 40 * DAY)
    [row] = by_rule(statistics, now=NOW + 40 * DAY)
    assert (row["findings"], row["fixed"], row["kept"], row["dismissed"], row["noise"]) == (3, 0, 0, 3, 1.0)


def test_months_are_told_apart(statistics: Statistics) -> None:
    statistics.count(5, 3, "acme/training", FOUND, NOW)
    later = NOW + 45 * DAY
    assert by_rule(statistics, 1, later) == []
    assert by_rule(statistics, 3, later)[0]["findings"] == 3
    assert by_rule(statistics, 13, NOW + 360 * DAY)[0]["findings"] == 3


def test_every_key_ends_some_day(statistics: Statistics, client: redis.Redis) -> None:
    statistics.note(5, 3, {"aa": KIND}, [("PF206", "train.py", "torch")])
    statistics.count(5, 3, "acme/training", FOUND, NOW)
    names: Any = client.keys("*")
    assert names
    assert [name for name in names if client.ttl(name) <= 0] == []


def test_what_a_head_had_is_remembered_until_the_pull_request_is_closed(statistics: Statistics) -> None:
    statistics.note(5, 3, {"aa": KIND}, [("PF206", "train.py", "torch")])
    statistics.note(5, 3, {"bb": KIND}, [])
    assert statistics.noted(5, 3) == ({"aa": KIND, "bb": KIND}, [])
    assert statistics.noted(5, 4) == ({}, [])


def test_two_at_once_lose_nothing(statistics: Statistics, redis_url: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: statistics.count(5, number % 10, "acme/training", FOUND, NOW), range(40)))
    assert by_rule(statistics)[0]["findings"] == 30


def test_the_page_of_a_link_shows_its_repository_and_no_other(
    site: Site, statistics: Statistics, document: dict[str, Any]
) -> None:
    statistics.count(5, 3, "acme/training", FOUND, time.time())
    statistics.count(6, 1, "acme/secret", {(Kind("PF404"), "findings"): 1}, time.time())
    path = site.put(document)
    for query in ("", "?by=pattern", "?by=framework&months=12", "?by=repository", "?by=<script>&months=-1"):
        answer = site.http.get(f"{path}/stats{query}")
        assert answer.status_code == 200
        assert acting(answer.text) == []
        text = Elements(answer.text).text
        assert "acme/training" in text
        assert "secret" not in text
        assert "PF404" not in text
    assert "67 %" in Elements(site.http.get(f"{path}/stats").text).text
    assert site.http.get(site.link(at=time.time() - 9 * DAY) + "/stats").status_code == 303
    assert site.http.get("/r/x/stats").status_code == 404


def test_without_a_login_there_is_no_page_to_ask_for_names(site: Site) -> None:
    assert site.http.get("/stats?repo=acme/training", headers={"Accept": "text/html"}).status_code == 404


def run(redis_url: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "REDIS_URL": redis_url, "PREFLIGHT_NAMESPACE": "pages"}
    command = [sys.executable, "-I", "-m", "preflight", "stats", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_command_prints_what_the_page_shows(statistics: Statistics, redis_url: str) -> None:
    statistics.count(5, 3, "acme/training", FOUND, time.time())
    document = json.loads(run(redis_url, "--format", "json").stdout)
    assert (document["version"], document["repositories"]) == (1, ["acme/training"])
    assert document["rows"][0] | {"useful": 0} == {
        "name": "PF101", "findings": 3, "fixed": 2, "kept": 1, "dismissed": 0, "suppressed": 0, "abandoned": 0,
        "up": 1, "down": 0, "useful": 0, "noise": 0.0,
    }  # fmt: skip
    table = run(redis_url, "--by", "pattern").stdout.splitlines()
    assert table[0].split()[:3] == ["pattern", "findings", "fixed"]
    assert table[1].startswith("PF101 keeps the graph")
    assert "67%" in table[1]
    missing = run(redis_url, "--repo", "acme/other")
    assert (missing.returncode, missing.stderr) == (2, "preflight stats: no counts for acme/other\n")
