"""Check runs: limits, appended annotations, conclusions, what a list shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.localhub.world import World

NOTE = {"path": "train.py", "start_line": 1, "end_line": 1, "annotation_level": "warning", "message": "m"}
OUTPUT = {"title": "t", "summary": "s"}


def _create(world: World, **changed: Any) -> Any:
    body = {"name": "preflight/code", "head_sha": world.pull.head_sha} | changed
    return world.call("POST", "/check-runs", body)


def test_pygithub_creates_and_concludes_a_run(world: World) -> None:
    repo = world.client().get_repo("acme/trainer")
    run = repo.create_check_run("preflight/code", world.pull.head_sha, status="in_progress", external_id="4:1")
    output: Any = OUTPUT | {"annotations": [NOTE]}
    run.edit(conclusion="failure", output=output)
    found = list(repo.get_commit(world.pull.head_sha).get_check_runs(check_name="preflight/code"))
    assert [(one.status, one.conclusion, one.external_id, one.app.slug) for one in found] == [
        ("completed", "failure", "4:1", "preflight")
    ]
    assert [one.path for one in run.get_annotations()] == ["train.py"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": None}, '"name" wasn\'t supplied'),
        ({"head_sha": "0" * 40}, "No commit found for SHA"),
        ({"status": "done"}, "is not a member of"),
        ({"status": "completed"}, '"conclusion" wasn\'t supplied'),
        ({"conclusion": "warning"}, "is not a member of"),
        ({"conclusion": "stale"}, "is not a member of"),
        ({"output": {"summary": "s"}}, '"title" wasn\'t supplied'),
        ({"output": {"title": "t"}}, '"summary" wasn\'t supplied'),
        ({"output": OUTPUT | {"title": "t" * 256}}, "Validation Failed"),
        ({"output": OUTPUT | {"summary": "ä" * 32_768}}, "Validation Failed"),
        ({"output": OUTPUT | {"text": "x" * 65_536}}, "Validation Failed"),
        ({"output": OUTPUT | {"annotations": [NOTE] * 51}}, "51 were supplied"),
        ({"output": OUTPUT | {"annotations": [NOTE | {"annotation_level": "error"}]}}, "is not a member of"),
        ({"output": OUTPUT | {"annotations": [NOTE | {"start_line": 0}]}}, "not a positive number"),
        ({"output": OUTPUT | {"annotations": [NOTE | {"end_line": 2, "start_column": 1}]}}, "start_column"),
        ({"output": OUTPUT | {"annotations": [NOTE | {"message": "x" * 65_537}]}}, "bytesize"),
        ({"output": OUTPUT | {"annotations": [NOTE | {"title": "x" * 256}]}}, "256 were supplied"),
        ({"actions": [{"label": "l", "description": "d", "identifier": "i"}] * 4}, "4 were supplied"),
        ({"actions": [{"label": "l" * 21, "description": "d", "identifier": "i"}]}, "21 were supplied"),
        ({"actions": [{"label": "l", "description": "d" * 41, "identifier": "i"}]}, "41 were supplied"),
        ({"started_at": "yesterday"}, "date-time"),
        ({"colour": "red"}, "not a permitted key"),
    ],
)
def test_what_a_check_run_may_not_say(world: World, changed: dict[str, Any], words: str) -> None:
    answer = _create(world, **changed)
    assert answer.status_code == 422
    assert words in answer.json()["message"]


def test_the_limits_themselves_are_allowed(world: World) -> None:
    output = {"title": "t" * 255, "summary": "x" * 65_535, "annotations": [NOTE] * 50}
    assert _create(world, output=output).status_code == 201


def test_annotations_are_appended_never_replaced(world: World) -> None:
    run = _create(world, output=OUTPUT | {"annotations": [NOTE]}).json()
    for _ in range(2):
        world.call("PATCH", f"/check-runs/{run['id']}", {"output": {"summary": "s", "annotations": [NOTE]}})
    assert len(world.call("GET", f"/check-runs/{run['id']}/annotations").json()) == 3


def test_a_list_shows_the_latest_run_of_a_name(world: World) -> None:
    _create(world, conclusion="failure")
    newest = _create(world, conclusion="success").json()
    _create(world, name="preflight/memory")
    place = f"/commits/{world.pull.head_sha}/check-runs"
    latest = world.call("GET", f"{place}?check_name=preflight/code&app_id={world.app.id}").json()
    assert [one["id"] for one in latest["check_runs"]] == [newest["id"]]
    assert world.call("GET", f"{place}?filter=all").json()["total_count"] == 3
    assert world.call("GET", f"{place}?app_id=1").json()["total_count"] == 0


def test_another_status_takes_the_conclusion_away(world: World) -> None:
    run = _create(world, conclusion="failure").json()
    again = world.call("PATCH", f"/check-runs/{run['id']}", {"status": "in_progress"}).json()
    assert (again["status"], again["conclusion"], again["completed_at"]) == ("in_progress", None, None)
