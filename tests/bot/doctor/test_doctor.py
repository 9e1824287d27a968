"""`preflight doctor` against a real deployment, healthy and with one thing after another broken."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from bot.cli.main import run
from bot.doctor import app, local
from tests.bot.queue.stack import Stack
from tests.support import WEBHOOK_SECRET, wait_for


def _ask(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit code, and the lines by name."""
    capsys.readouterr()
    code = run(["doctor", "--format", "json"])
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in json.loads(capsys.readouterr().out)["checks"]:
        lines.setdefault(line["name"], []).append(line)
    return code, lines


def _bad(lines: dict[str, list[dict[str, Any]]]) -> set[str]:
    return {name for name, found in lines.items() if any(line["status"] == "fail" for line in found)}


def _set(stack: Stack, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name, value in stack.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("PREFLIGHT_PRIVATE_KEY", "PREFLIGHT_WEBHOOK_SECRET"):
        file = folder / name
        file.write_text(stack.environment[name])
        file.chmod(0o600)
        monkeypatch.setenv(f"{name}_FILE", str(file))
        monkeypatch.delenv(name)


def test_a_deployment_and_what_breaks_in_it(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _set(stack, monkeypatch, tmp_path)
    app_row = next(iter(stack.hub.service.hub.rows.apps.values()))
    app_row.events = (*app_row.events, "pull_request_review_comment")
    receiver = stack.serve()
    stack.work_on()
    sent = stack.hub.service.hub.rows.deliveries
    wait_for(  # what was sent before anybody listened: workers ask for it again
        lambda: (
            {one.guid for one in sent.values()} == {one.guid for one in sent.values() if 200 <= one.status_code < 400}
        ),
        60,
        "the deliveries of before arrive",
    )
    code, lines = _ask(capsys)
    assert (code, _bad(lines)) == (0, set()), lines
    assert {line["status"] for name in ("app", "clock", "app permissions", "webhook") for line in lines[name]} == {"ok"}
    assert lines["redis persistence"][0]["status"] == "warn", "the tests' server keeps nothing"
    assert lines["workers"][0]["detail"] == "1 alive"

    stack.client.config_set("maxmemory-policy", "allkeys-lru")
    app_row.permissions["checks"] = "read"
    app_row.permissions["administration"] = "write"
    app_row.events = app_row.events[1:]
    (installation,) = stack.hub.service.hub.rows.installations.values()
    del installation.permissions["issues"]
    monkeypatch.setenv("PREFLIGHT_WEBHOOK_SECRET_FILE", str(_other(tmp_path)))
    Path(tmp_path / "PREFLIGHT_PRIVATE_KEY").chmod(0o644)
    code, lines = _ask(capsys)
    stack.client.config_set("maxmemory-policy", "noeviction")
    assert code == 1
    wanted = {"redis eviction", "app permissions", "app events", "installation acme", "webhook", "secret files"}
    assert _bad(lines) == wanted
    assert [line["detail"] for line in lines["app permissions"]] == [
        "missing checks: write",
        "more than needed: administration: write",
    ]
    assert lines["installation acme"][0]["detail"] == "missing issues: write"
    assert "refuses our signature" in lines["webhook"][0]["detail"]
    assert all(line["repair"] for found in lines.values() for line in found if line["status"] in {"warn", "fail"})

    receiver.terminate()
    receiver.wait(30)
    stack.open_pull()
    hub = stack.hub.service
    wait_for(lambda: all(one.status != "pending" for one in hub.hub.rows.deliveries.values()), 30, "deliveries fail")
    _, lines = _ask(capsys)
    assert lines["deliveries"][0]["status"] == "fail"
    assert " 502" in lines["deliveries"][0]["detail"]
    assert "does not answer from here" in lines["webhook"][0]["detail"]

    monkeypatch.setenv("PREFLIGHT_APP_ID", "4711")
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    code, lines = _ask(capsys)
    assert (code, {"app", "redis"} <= _bad(lines)) == (1, True)
    assert WEBHOOK_SECRET not in json.dumps(lines)


def _other(folder: Path) -> Path:
    file = folder / "other-secret"
    file.write_text("another-secret-0123456789")
    file.chmod(0o600)
    return file


def test_without_any_settings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("REDIS_URL", "PREFLIGHT_APP_ID", "PREFLIGHT_PRIVATE_KEY", "PREFLIGHT_WEBHOOK_SECRET"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    assert run(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "FAIL  receiver settings: PREFLIGHT_WEBHOOK_SECRET" in shown
    assert "-> set it in the environment" in shown
    assert "skip  redis" in shown


@pytest.mark.parametrize(("skew", "status"), [(0, "ok"), (45, "warn"), (-600, "fail")])
def test_the_clock_is_compared_with_githubs(skew: float, status: str) -> None:
    (line,) = app._clock({"date": formatdate(time.time() - skew, usegmt=True)})
    assert line.status == status


@pytest.mark.parametrize(("mode", "status"), [(0o600, "ok"), (0o440, "ok"), (0o660, "warn"), (0o604, "fail")])
def test_modes_of_secrets(tmp_path: Path, mode: int, status: str) -> None:
    file = tmp_path / "secret"
    file.write_text("x")
    file.chmod(mode)
    lines = [line for line in local.files({"PREFLIGHT_WEBHOOK_SECRET_FILE": str(file)}) if line.name == "secret files"]
    assert [line.status for line in lines] == [status]


class Listed:
    """GitHub's list of deliveries, the newest first."""

    def __init__(self, *sent: tuple[str, int]) -> None:
        self.sent = [{"guid": str(at), "event": name, "status_code": code} for at, (name, code) in enumerate(sent)]

    def get(self, path: str, params: dict[str, int]) -> list[dict[str, Any]]:
        return self.sent


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ([("ping", 502)], "warn", "only GitHub's first ping, which came before anybody listened"),
        ([("push", 202), ("ping", 502)], "ok", "the last 2 arrived, but for the first ping"),
        ([("push", 202), ("push", 502), ("ping", 502)], "warn", "1 of the last 3 failed: push 502"),
        ([("push", 502), ("push", 202)], "fail", "1 of the last 2 failed: push 502"),
        ([("push", 202), ("ping", 200)], "ok", "the last 2 arrived"),
    ],
)
def test_a_ping_that_came_before_anybody_listened_is_no_failure(
    sent: list[tuple[str, int]], status: str, said: str
) -> None:
    (line,) = app._deliveries(Listed(*sent))  # type: ignore[arg-type] # of GitHub's API it asks this alone
    assert (line.status, line.detail) == (status, said)
