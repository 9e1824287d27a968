"""The page behind a check's link: who gets it, what is on it, and that nothing in it acts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
import redis

from bot.pages.links import ReportRef, Signer
from bot.pages.shelf import MAX_PER_PULL
from bot.settings import Secret
from bot.store import DAY
from tests.bot.pages.pages import REF, SHA, Elements, Site, acting, build_site, document_of, page_settings_of

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\" onload='x' {{7*7}} \u202e\ud800 javascript:x"


def test_the_page_shows_findings_beside_their_code_and_memory_with_its_formulas(
    site: Site, document: dict[str, Any]
) -> None:
    answer = site.http.get(site.put(document))
    seen = Elements(answer.text)
    assert answer.status_code == 200
    for text in ("PF101", "losses.append(loss)", "graph", "job.slurm", "exceeds", "usable", "What if?", "SGD"):
        assert text in seen.text
    marks = [row for row in seen.named("tr") if row.get("class") == "here"]
    assert marks
    assert "32 layers" in seen.text or "layers x" in seen.text
    assert "<script>alert(1)</script>" in seen.text  # the comment of the code, as text
    assert acting(answer.text) == []


def test_every_string_of_a_report_is_text_and_never_an_element(site: Site, document: dict[str, Any]) -> None:
    """Any field may come from a pull request: each string of the document is replaced by an attack."""
    kept = {"severity", "confidence", "conclusion", "state", "verdict", "sign", "web_url", "made_at", "fingerprint"}

    def attacked(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: attacked(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [attacked(item, key) for item in value]
        return f"{value}{HOSTILE}" if isinstance(value, str) and key not in kept else value

    page = site.http.get(site.put(attacked(document)))
    assert page.status_code == 200
    assert acting(page.text) == []
    assert page.text.count("<script") == 0
    assert "49" not in Elements(page.text).text.split("{{7*7}}")[0][-4:]
    assert "⟨U+202E⟩" in page.text


def test_hostile_names_and_titles_go_through_a_real_review(site: Site) -> None:
    name = "a<script>alert(1)</script> 'b\"&.py"
    from tests.bot.pages.pages import TRAIN

    page = site.http.get(site.put(document_of({name: TRAIN}, title=HOSTILE))).text
    assert name in Elements(page).text
    assert acting(page) == []


def test_a_link_that_ended_shows_nothing_and_says_how_to_go_on(site: Site, document: dict[str, Any]) -> None:
    site.put(document)
    answer = site.http.get(site.link(at=time.time() - 9 * DAY))
    assert answer.status_code == 410
    assert "Re-run" in answer.text
    assert "acme/training" not in answer.text
    assert "train.py" not in answer.text


@pytest.mark.parametrize("change", ["x", "", "é", "A" * 5_000, "../../etc/passwd", "%00"])
def test_a_link_that_we_did_not_sign_is_nothing(site: Site, document: dict[str, Any], change: str) -> None:
    path = site.put(document)
    tampered = path[:-4] + change if change == "x" else f"/r/{change}"
    assert site.http.get(tampered, headers={"Accept": "text/html"}).status_code == 404


def test_a_link_names_one_commit_of_one_pull_request(site: Site, document: dict[str, Any]) -> None:
    site.put(document)
    for other in (replace(REF, number=4), replace(REF, repo_id=6), replace(REF, head_sha="d" * 40)):
        answer = site.http.get(site.link(other))
        assert answer.status_code == 410
        assert "acme/training" not in answer.text
    foreign = Signer([Secret("another-secret-0123456789")], 7).sign(REF, time.time())
    assert site.http.get(f"/r/{foreign}").status_code == 404


def test_a_replaced_secret_still_opens_its_links(client: redis.Redis, redis_url: str, document: dict[str, Any]) -> None:
    old, new = Secret("the-old-secret-0123456789"), Secret("the-new-secret-0123456789")
    signer = Signer([old, new], 7)
    token = Signer([old], 7).sign(REF, time.time())
    found = Signer([new, old], 7).open(token)
    assert found is not None
    assert found.ref == REF
    assert Signer([new], 7).open(token) is None
    assert Signer([old], 7).open(signer.sign(REF, 0.0)) is not None  # the first one signs


def test_two_jobs_of_a_day_make_the_same_link(site: Site) -> None:
    noon = 20_000 * DAY + 43_200.0
    assert site.link(at=noon) == site.link(at=noon + 3_600)
    opened = site.signer.open(site.link(at=noon).removeprefix("/r/"))
    assert opened is not None
    assert 7 * DAY <= opened.expires - noon <= 8 * DAY


def test_after_a_flush_the_page_says_so(site: Site, document: dict[str, Any], client: redis.Redis) -> None:
    path = site.put(document)
    client.flushall()
    answer = site.http.get(path)
    assert answer.status_code == 410
    assert "no report of this commit" in answer.text


def test_a_review_that_runs_has_a_page_that_looks_again(site: Site) -> None:
    site.client.zadd(site.keys.open_reviews(), {f"5-3-{SHA}-1": time.time() + 60})
    answer = site.http.get(site.link())
    assert answer.status_code == 202
    refresh = [item for item in Elements(answer.text).named("meta") if item.get("http-equiv") == "refresh"]
    assert refresh == [{"http-equiv": "refresh", "content": "5"}]


def test_a_few_reports_of_a_pull_request_are_kept_and_none_for_ever(site: Site, document: dict[str, Any]) -> None:
    refs = [ReportRef(repo_id=5, number=3, head_sha=f"{number:040x}") for number in range(MAX_PER_PULL + 3)]
    for number, ref in enumerate(refs):
        site.shelf.put(ref, document, 1_000.0 + number)
    held = [ref for ref in refs if site.shelf.get(ref)]
    assert held == refs[3:]
    assert all(site.client.ttl(key) > 0 for key in site.client.keys("pages:report*"))


def test_a_damaged_report_is_gone_and_no_error(site: Site) -> None:
    for damage in (b"", b"not zlib", b"x\x9c\x03\x00"):
        site.client.set(site.keys.report(5, 3, SHA), damage)
        assert site.http.get(site.link()).status_code == 410


@pytest.mark.parametrize("path", ["/", "/nothing", "/r/x", "/healthz", "/webhook", "/assets/x.css"])
def test_every_answer_has_the_security_headers(site: Site, path: str) -> None:
    headers = site.http.get(path).headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "script" not in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert "no-store" in headers["Cache-Control"]


def test_without_redis_the_page_says_that_it_is_temporary(client: redis.Redis) -> None:
    site = build_site(client, "redis://127.0.0.1:1/0", page_settings_of())
    answer = site.http.get(site.link())
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert site.http.get("/").status_code == 200


def test_without_a_public_address_there_are_no_reports(
    client: redis.Redis, redis_url: str, document: dict[str, Any]
) -> None:
    site = build_site(client, redis_url, page_settings_of(public_url=""))
    assert site.http.get(site.put(document)).status_code == 404
