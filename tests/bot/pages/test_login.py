"""Logging in against a real (local) GitHub: who gets a new link, and every way in which a login must fail."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import redis
import requests

from bot.localhub.server import Server
from bot.pages.links import ReportRef
from bot.settings import Secret
from bot.store import DAY
from tests.bot.pages.pages import SHA, Site, build_site, page_settings_of
from tests.localhub.world import World, build


@dataclass(frozen=True, slots=True)
class House:
    """The pages and the GitHub they ask."""

    site: Site
    world: World
    ref: ReportRef

    def old_link(self) -> str:
        return self.site.link(self.ref, at=time.time() - 9 * DAY)

    def log_in(self, login: str, target: str) -> Any:
        """Everything a browser does; the answer of the callback."""
        begun = self.site.http.get("/login", query_string={"next": target})
        assert begun.status_code == 303
        query = {name: values[0] for name, values in parse_qs(urlsplit(begun.headers["Location"]).query).items()}
        url = begun.headers["Location"].partition("?")[0]
        assert "Authorize as" in requests.get(begun.headers["Location"], timeout=10).text
        granted = requests.post(url, data={**query, "login": login}, allow_redirects=False, timeout=10)
        back = urlsplit(granted.headers["Location"])
        return self.site.http.get(f"{back.path}?{back.query}")


@pytest.fixture
def house(client: redis.Redis, redis_url: str, tmp_path: Path, document: dict[str, Any]) -> Iterator[House]:
    with Server(tmp_path / "hub") as server:
        world = build(server, tmp_path)
        app = world.installation.app
        settings = page_settings_of(
            client_id=app.client_id, client_secret=Secret(app.client_secret), api_url=server.api_url
        )
        site = build_site(client, redis_url, settings)
        repo = server.service.hub.repository("acme", "trainer")
        repo.roles["rita"] = "read"
        ref = ReportRef(repo_id=repo.id, number=1, head_sha=SHA)
        site.put(document, ref)
        yield House(site, world, ref)


def test_whoever_may_read_the_repository_gets_a_new_link(house: House) -> None:
    ended = house.old_link()
    offered = house.site.http.get(ended)
    assert offered.status_code == 410
    assert f'href="/login?next={ended.replace("/", "%2F")}"' in offered.text
    back = house.log_in("rita", ended)
    assert (back.status_code, back.headers["Location"]) == (303, ended)
    renewed = house.site.http.get(ended)
    assert renewed.status_code == 303
    shown = house.site.http.get(renewed.headers["Location"])
    assert shown.status_code == 200
    assert "train.py" in shown.text
    assert "rita" in shown.text


def test_nobody_else_learns_anything(house: House) -> None:
    ended = house.old_link()
    house.log_in("mallory", ended)
    answer = house.site.http.get(ended)
    assert answer.status_code == 410
    assert "mallory" in answer.text
    for secret in ("acme", "train.py", SHA):
        assert secret not in answer.text


def test_access_that_is_taken_away_ends(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = house.old_link()
    house.log_in("rita", ended)
    assert house.site.http.get(ended).status_code == 303
    house.world.server.service.hub.repository("acme", "trainer").roles.clear()
    assert house.site.http.get(ended).status_code == 303  # asked a moment ago
    now = time.time()
    monkeypatch.setattr("bot.web.pages.sessions.time.time", lambda: now + 400)
    assert house.site.http.get(ended).status_code == 410


def test_a_token_that_github_takes_back_ends_the_session(house: House) -> None:
    house.log_in("rita", "/")
    house.world.server.service.hub.rows.user_tokens.clear()
    assert house.site.http.get(house.old_link()).status_code == 410
    assert house.site.client.keys("pages:session:*") == []


def test_the_cookie_tells_nothing_and_redis_holds_no_token_in_the_clear(house: House) -> None:
    back = house.log_in("rita", "/")
    [cookie] = [text for text in back.headers.getlist("Set-Cookie") if text.startswith("preflight=")]
    for wanted in ("HttpOnly", "SameSite=Lax", "Path=/", "Max-Age="):
        assert wanted in cookie
    name = cookie.split(";")[0].partition("=")[2]
    [key] = house.site.client.keys("pages:session:*")
    held: Any = house.site.client.get(key)
    assert name.encode() not in key
    assert b"ghu_" not in held
    assert b"rita" not in held
    assert 0 < house.site.client.ttl(key) <= 8 * 3_600


def test_over_https_cookies_are_secure_and_bound_to_the_host(client: redis.Redis, redis_url: str) -> None:
    settings = page_settings_of(
        public_url="https://preflight.example.org", client_id="x", client_secret=Secret("s" * 40)
    )
    answer = build_site(client, redis_url, settings).http.get("/login")
    [cookie] = answer.headers.getlist("Set-Cookie")
    assert cookie.startswith("__Host-preflight-login=")
    assert "Secure" in cookie
    assert answer.headers["Strict-Transport-Security"]
    assert "redirect_uri=https%3A%2F%2Fpreflight.example.org%2Flogin%2Fcallback" in answer.headers["Location"]


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example/", "/r/x/../../y", "/\\evil.example", "/x"])
def test_a_login_leads_to_pages_of_ours_only(house: House, target: str) -> None:
    assert house.log_in("rita", target).headers["Location"] == "/"


def test_an_answer_to_another_login_is_refused(house: House) -> None:
    house.site.http.get("/login")
    for query in ("code=abc&state=wrong", "code=abc", "error=access_denied&state=x", "state=%ff%fe"):
        answer = house.site.http.get(f"/login/callback?{query}")
        assert answer.status_code == 400
        assert "not logged in" in answer.text


def test_a_code_that_github_does_not_take_is_refused(house: House) -> None:
    begun = house.site.http.get("/login")
    state = re.findall(r"state=([^&]+)", begun.headers["Location"])[0]
    answer = house.site.http.get(f"/login/callback?code=stolen&state={state}")
    assert answer.status_code == 400
    assert house.site.client.keys("pages:session:*") == []


def test_logging_out_ends_the_session(house: House) -> None:
    house.log_in("rita", "/")
    assert house.site.http.post("/logout", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 404
    assert house.site.client.keys("pages:session:*")
    assert house.site.http.post("/logout").status_code == 303
    assert house.site.client.keys("pages:session:*") == []


def test_a_github_that_is_away_is_said(house: House) -> None:
    house.log_in("rita", "/")
    house.world.server.__exit__(None, None, None)
    answer = house.site.http.get(house.old_link())
    assert answer.status_code == 503
    assert "GitHub" in answer.text
