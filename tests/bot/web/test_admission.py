"""What the gate's routes refuse before anybody is asked, and how they bound those who ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from flask.testing import FlaskClient

from bot.settings import web_settings
from bot.web import admission, gate
from bot.web.app import create_app
from bot.web.gate_tokens import hashed
from tests.support import WEBHOOK_SECRET

_HEADERS = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
_REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


@pytest.fixture
def web(client: redis.Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    path = tmp_path / "tokens.toml"
    path.write_text(f'[[token]]\nname = "a"\ninstallation = 7\nsha256 = "{hashed("secret")}"\n')
    monkeypatch.setenv("PREFLIGHT_GATE_TOKENS_FILE", str(path))
    settings = web_settings({"REDIS_URL": redis_url, "PREFLIGHT_WEBHOOK_SECRET": WEBHOOK_SECRET})
    with create_app(settings).test_client() as app:
        yield app


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        '"x"',
        "{}",
        json.dumps(_REVIEW),
        json.dumps(_REVIEW | {"request": {"operation": "CREATE"}}),
        json.dumps(_REVIEW | {"apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "u"}}),
        "[" * 200_000,
    ],
)
def test_what_is_no_review_is_a_400(web: FlaskClient, body: str) -> None:
    assert web.post("/admission", data=body, headers=_HEADERS).status_code == 400


def test_type_size_and_token_come_first(web: FlaskClient) -> None:
    assert web.post("/admission", data="{}", headers={**_HEADERS, "Authorization": ""}).status_code == 401
    assert web.post("/admission/wrong", data="{}").status_code == 401
    assert web.post("/admission/secret", data="{}").status_code == 415
    assert web.post("/admission", data=" " * (admission.MAX_READ + 1), headers=_HEADERS).status_code == 413
    review = json.dumps(_REVIEW | {"request": {"uid": "u", "operation": "DELETE"}})
    answer = web.post("/admission", data=review, headers=_HEADERS)
    assert answer.get_json()["response"] == {"uid": "u", "allowed": True}


def _create(document: str) -> str:
    request = f'{{"uid": "u-1", "operation": "CREATE", "object": {document}}}'
    return f'{{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {request}}}'


@pytest.mark.parametrize(
    "much",
    [
        '{"a":' * 150 + "1" + "}" * 150,
        "[" * 700 + "]" * 700,
        "[" * 60_000 + "]" * 60_000,
        '"' + "\\u003c" * 700_000 + '"',
    ],
    ids=["deep", "deeper", "deepest", "long"],
)
@pytest.mark.parametrize(("resource", "allowed"), [("nvidia.com/gpu", False), ("cpu", True)])
def test_what_is_too_much_to_read_gets_no_gpu(web: FlaskClient, much: str, resource: str, allowed: bool) -> None:
    """An error would be nobody's decision, and under ``failurePolicy: Ignore`` the way past the gate."""
    body = _create(f'{{"kind": "Pod", "spec": {{"limits": {{"{resource}": 1}}, "x": {much}}}}}')
    answer = web.post("/admission", data=body, headers=_HEADERS)
    assert answer.status_code == 200, answer.text
    response = answer.get_json()["response"]
    assert (response["uid"], response["allowed"]) == ("u-1", allowed)


@pytest.mark.parametrize("repo_id", ["0", "9" * 30, "9" * 3_900, "-1", "1e5", "٣", "1/../2", "%0a1"])
def test_a_repository_that_is_no_number_is_no_repository(
    web: FlaskClient, monkeypatch: pytest.MonkeyPatch, repo_id: str
) -> None:
    monkeypatch.setattr("bot.queue.ask.Asker.ask", lambda *_: {"error": "x", "status": 404})
    assert web.get(f"/gate/{repo_id}/{'a' * 40}", headers=_HEADERS).status_code in {400, 404}


@pytest.mark.parametrize("sha", ["a" * 41, "A" * 40, "a" * 39 + "%0a", "a" * 3_000, "..%2f..%2fetc", "a" * 39 + "é"])
def test_a_commit_that_is_no_full_id_is_refused(web: FlaskClient, sha: str) -> None:
    assert web.get(f"/gate/5/{sha}", headers=_HEADERS).status_code in {400, 404}


def test_one_token_asks_so_often_and_no_more(web: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "PER_MINUTE", 1)
    monkeypatch.setattr("bot.queue.ask.Asker.ask", lambda *_: {"error": "x", "status": 404})
    path = f"/gate/5/{'a' * 40}"
    assert [web.get(path, headers=_HEADERS).status_code for _ in range(2)] == [404, 429]
    assert int(web.get(path, headers=_HEADERS).headers["Retry-After"]) > 0


def test_without_a_worker_the_answer_is_a_503_and_no_job_is_left(
    web: FlaskClient, client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.web.app._GATE_SECONDS", 0.3)
    with create_app(
        web_settings({"REDIS_URL": redis_url, "PREFLIGHT_WEBHOOK_SECRET": WEBHOOK_SECRET})
    ).test_client() as app:
        answer = app.get(f"/gate/5/{'a' * 40}", headers=_HEADERS)
    assert answer.status_code == 503
    assert client.llen("rq:queue:preflight-fast") == 0
