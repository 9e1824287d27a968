"""Toggles of the page: estimated again on the server, in a child, with the numbers that were promised."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.bot.pages.pages import Elements, Site, acting


def ask(site: Site, document: dict[str, Any], **query: Any) -> str:
    path = site.put(document)
    answer = site.http.get(f"{path}?{urlencode({'launch': 0, **query}, doseq=True)}")
    assert answer.status_code == 200
    assert acting(answer.text) == []
    return answer.text


def test_a_chosen_suggestion_gives_the_peak_it_promised(site: Site, document: dict[str, Any]) -> None:
    [launch] = document["launches"]
    fitting = next(index for index, item in enumerate(launch["estimate"]["suggestions"]) if item["verdict"] == "fits")
    page = ask(site, document, change=[fitting])
    promised = launch["estimate"]["suggestions"][fitting]["peak_gib"]
    text = " ".join(Elements(page).text.split())
    outcome = text[text.index("What if?") : text.index("Changed:")]
    assert f"{promised['low']:.1f}–{promised['high']:.1f} GiB per GPU" in outcome
    assert "fits" in outcome[:100]
    checked = [item["value"] for item in Elements(page).named("input") if "checked" in item]
    assert checked == [str(fitting)]


def test_values_of_ones_own_are_taken_and_said(site: Site, document: dict[str, Any]) -> None:
    text = " ".join(Elements(ask(site, document, micro_batch="1", gpu="H200", seq_len="512")).text.split())
    assert "Changed: gpu ['H200']" in text or "micro_batch 1" in text
    assert "of 139" in text or "of 140" in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"micro_batch": "<b>4</b>"}, "micro_batch"),
        ({"micro_batch": "99999999999"}, "micro_batch"),
        ({"gpu": "Voodoo2"}, "Voodoo2"),
        ({"precision": "fp7"}, "precision"),
    ],
)
def test_a_value_that_no_run_can_have_is_said(
    site: Site, document: dict[str, Any], query: dict[str, str], said: str
) -> None:
    text = Elements(ask(site, document, **query)).text
    assert "No estimate:" in text
    assert said in text[text.index("No estimate:") :][:200]


@pytest.mark.parametrize(
    "query", [{"launch": "9"}, {"launch": "-1"}, {"launch": "²"}, {"change": ["8", "x"]}, {"frobnicate": "1"}]
)
def test_a_question_that_the_report_does_not_have_is_no_question(
    site: Site, document: dict[str, Any], query: dict[str, Any]
) -> None:
    assert "Changed:" not in Elements(ask(site, document, **query)).text


def test_an_answer_is_remembered_with_an_expiry(site: Site, document: dict[str, Any]) -> None:
    ask(site, document, micro_batch="2")
    [key] = site.client.keys("pages:whatif:*")
    assert 0 < site.client.ttl(key) <= 3_600
    held: Any = site.client.get(key)
    altered = json.loads(held)
    altered["estimate"]["peak_gib"]["high"] = 4321.0
    site.client.set(key, json.dumps(altered))
    assert "4321.0" in ask(site, document, micro_batch="2")


def test_slow_questions_leave_threads_to_others(
    site: Site, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two estimates at a time and one that waits; everybody else hears at once to come back."""
    path = site.put(document)
    app = site.http.application
    refused, end = threading.Semaphore(0), threading.Event()

    def held(document: Any) -> dict[str, Any]:
        end.wait(60)
        return {"error": "held"}

    def status(number: int) -> int:
        found = app.test_client().get(f"{path}?launch=0&seq_len={64 + number}").status_code
        if found == 503:
            refused.release()
        return found

    monkeypatch.setattr("bot.web.pages.what_if._in_child", held)
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(status, number) for number in range(8)]
        told = [refused.acquire(timeout=60) for _ in range(5)]
        end.set()
    statuses = [answer.result() for answer in answers]
    assert told == [True] * 5
    assert statuses.count(200) >= 2
