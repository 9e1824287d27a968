"""The manifest flow and the pages around it, with the browser's part played by requests, and git's by git."""

from __future__ import annotations

import json
import re
from typing import Any

import jwt
import pytest
import requests

from tests.localhub.world import World, commit, git, new_repository

MANIFEST: dict[str, Any] = {
    "name": "Our Preflight",
    "url": "http://127.0.0.1:9",
    "hook_attributes": {"url": "http://127.0.0.1:9/webhook", "active": True},
    "redirect_url": "http://127.0.0.1:9/callback",
    "default_permissions": {"checks": "write", "pull_requests": "write"},
    "default_events": ["check_run", "pull_request"],
}


def _register(world: World, manifest: dict[str, Any], org: str = "acme") -> requests.Response:
    root = world.server.url
    form = requests.post(
        f"{root}/organizations/{org}/settings/apps/new?state=abc", data={"manifest": json.dumps(manifest)}, timeout=10
    )
    if form.status_code != 200:
        return form
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form.text))
    fields["manifest"] = json.dumps(manifest)
    return requests.post(f"{root}/settings/apps", data=fields, timeout=30, allow_redirects=False)


def _exchange(world: World, code: str) -> requests.Response:
    headers = {"Accept": "application/vnd.github+json"}
    return requests.post(f"{world.server.api_url}/app-manifests/{code}/conversions", headers=headers, timeout=10)


def test_a_manifest_becomes_an_app_once(world: World) -> None:
    back = _register(world, MANIFEST)
    found = re.fullmatch(r"http://127\.0\.0\.1:9/callback\?code=(\w+)&state=abc", back.headers["Location"])
    assert found
    answer = _exchange(world, found[1])
    app = answer.json()
    assert (answer.status_code, app["slug"], app["owner"]["login"]) == (201, "our-preflight", "acme")
    assert app["permissions"] == {"metadata": "read", "checks": "write", "pull_requests": "write"}
    token = jwt.encode({"iat": 0, "exp": 9e9, "iss": str(app["id"])}, app["pem"], algorithm="RS256")
    assert jwt.get_unverified_header(token)["alg"] == "RS256"
    assert _exchange(world, found[1]).status_code == 404, "a code holds once"
    assert _register(world, MANIFEST).status_code == 422, "a name is taken once"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"url": ""}, "wasn&#39;t supplied"),
        ({"hook_attributes": {"active": False}}, "wasn&#39;t supplied"),
        ({"default_events": ["merge_group"]}, "not supported by permissions"),
        ({"default_events": ["installation"]}, "unsupported"),
        ({"name": "x" * 40}, "too long"),
    ],
)
def test_a_manifest_that_github_would_refuse(world: World, change: dict[str, Any], words: str) -> None:
    answer = _register(world, MANIFEST | change)
    assert (answer.status_code, words in answer.text) == (422, True), answer.text


def test_a_repository_is_made_pushed_to_and_has_a_pull_request(world: World, tmp_path: Any) -> None:
    root = world.server.url
    made = requests.post(f"{root}/new", data={"owner": "lab", "name": "nets", "user": "kim"}, timeout=10)
    assert made.url == f"{root}/lab/nets"
    work = new_repository(tmp_path / "work", {"a.py": "x = 1\n"})
    address = f"{root.replace('http://', 'http://kim:x@')}/lab/nets.git"
    git(work, "push", "-q", address, "main")
    git(work, "switch", "-q", "-c", "more")
    commit(work, "more", {"a.py": "x = 2\n"})
    git(work, "push", "-q", address, "more")
    page = requests.post(f"{root}/lab/nets/pull/new/more", data={"title": "More", "user": "kim"}, timeout=10)
    assert page.url == f"{root}/lab/nets/pull/1"
    assert "x = 2" in page.text
    git(work, "commit", "-q", "--amend", "-m", "again")
    git(work, "push", "-q", "--force", address, "more")
    hub = world.server.service.hub
    pull = hub.pull(hub.repository("lab", "nets"), 1)
    assert pull.head_sha == git(work, "rev-parse", "HEAD")
    copy = git(tmp_path, "clone", "-q", f"{root}/lab/nets.git", "copy")
    assert copy == ""
    assert (tmp_path / "copy" / "a.py").read_text() == "x = 1\n"


def test_installing_is_a_button(world: World) -> None:
    root = world.server.url
    back = _register(world, MANIFEST)
    _exchange(world, re.findall(r"code=(\w+)", back.headers["Location"])[0])
    page = requests.get(f"{root}/apps/our-preflight/installations/new", timeout=10).text
    assert "Install on acme" in page
    page = requests.post(f"{root}/apps/our-preflight/installations", data={"account": "acme"}, timeout=10).text
    assert "installed on all repositories" in page


def test_the_page_of_a_pull_request_is_where_people_speak(world: World) -> None:
    hub, page = world.server.service.hub, f"{world.server.url}/acme/trainer/pull/1"
    place = {"path": "train.py", "line": 3, "side": "RIGHT", "body": "Why?"}
    review = {"commit_id": world.pull.head_sha, "event": "COMMENT", "body": "Look.", "comments": [place]}
    assert world.call("POST", "/pulls/1/reviews", review).status_code == 200
    first = hub.comments_of(world.pull)[0]
    said = requests.post(f"{page}/comment", data={"user": "kim", "body": "/preflight help\r\nplease"}, timeout=10)
    assert (said.url, "/preflight help" in said.text) == (page, True)
    requests.post(f"{page}/comment", data={"user": "kim", "body": "So.", "in_reply_to": first.id}, timeout=10)
    assert [(item.author.login, item.body) for item in hub.conversation_of(world.pull)] == [
        ("kim", "/preflight help\nplease")
    ]
    assert [(item.in_reply_to, item.body) for item in hub.comments_of(world.pull)] == [(None, "Why?"), (first, "So.")]
    nobody = requests.post(f"{page}/comment", data={"user": "kim", "body": "So.", "in_reply_to": 1}, timeout=10)
    assert nobody.status_code == 404


def test_the_page_of_a_pull_request_has_the_buttons_and_the_link_of_its_checks(world: World) -> None:
    hub, page = world.server.service.hub, f"{world.server.url}/acme/trainer/pull/1"
    action = {"label": "Explain", "description": "d", "identifier": "explain"}
    body = {"name": "x", "head_sha": world.pull.head_sha, "conclusion": "success", "actions": [action]}
    run = world.call("POST", "/check-runs", body | {"details_url": "https://preflight.example.org/r/a"}).json()["id"]
    assert (
        '<a class="button" href="https://preflight.example.org/r/a">Details</a>' in requests.get(page, timeout=10).text
    )
    pressed = requests.post(f"{page}/press", data={"run": run, "user": "dana", "identifier": "explain"}, timeout=10)
    assert pressed.url == page
    wrong = [{"run": run, "identifier": "merge"}, {"run": 1, "identifier": "explain"}, {}]
    assert {requests.post(f"{page}/press", data=data, timeout=10).status_code for data in wrong} == {404}
    world.server.service.dispatcher.wait_idle()
    sent = [one.payload for one in hub.rows.deliveries.values() if one.action == "requested_action"]
    assert [(one["requested_action"], one["sender"]["login"]) for one in sent] == [({"identifier": "explain"}, "dana")]
