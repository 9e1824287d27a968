"""Check runs, check suites and annotations."""

from __future__ import annotations

from bot.localhub.clock import stamp
from bot.localhub.model import CheckRun, CheckSuite, Json
from bot.localhub.payloads import people, pulls, repos
from bot.localhub.state import Hub

# The suite shows the worst of its runs.
_WORST = ("action_required", "timed_out", "cancelled", "failure", "success", "neutral", "skipped")


def _pulls_at(hub: Hub, suite: CheckSuite) -> list[Json]:
    """Open pull requests with this head; empty for the head of a fork, as on GitHub."""
    found = [pull for pull in hub.pulls(suite.repo) if pull.head_sha == suite.head_sha and pull.state == "open"]
    return [pulls.minimal(hub, pull) for pull in found if pull.head_repo is suite.repo]


def run(hub: Hub, found: CheckRun) -> Json:
    """A ``check-run``."""
    suite = found.suite
    url = hub.urls.api(f"{repos.api_path(suite.repo)}/check-runs/{found.id}")
    html = hub.urls.web(f"/{suite.repo.full_name}/runs/{found.id}")
    return {
        "id": found.id,
        "node_id": f"CR_{found.id}",
        "head_sha": suite.head_sha,
        "external_id": found.external_id,
        "url": url,
        "html_url": html,
        "details_url": found.details_url or html,
        "name": found.name,
        "status": found.status,
        "conclusion": found.conclusion,
        "started_at": found.started_at,
        "completed_at": found.completed_at,
        "output": {
            "title": found.title,
            "summary": found.summary,
            "text": found.text,
            "annotations_count": len(found.annotations),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": suite.id},
        "app": people.app(hub.urls, suite.app),
        "pull_requests": _pulls_at(hub, suite),
    }


def run_in_webhook(hub: Hub, found: CheckRun) -> Json:
    """A ``check-run-with-simple-check-suite``."""
    body = run(hub, found)
    body["started_at"] = body["started_at"] or stamp(found.suite.created_at)
    simple = suite(hub, found.suite)
    kept: tuple[str, ...] = (
        "id",
        "node_id",
        "head_branch",
        "head_sha",
        "status",
        "conclusion",
        "url",
        "before",
        "after",
    )
    kept += ("pull_requests", "app", "created_at", "updated_at")
    return body | {"check_suite": {key: simple[key] for key in kept}}


def suite_result(hub: Hub, found: CheckSuite) -> tuple[str, str | None]:
    """Status and conclusion of a suite, from the newest run of each name."""
    newest = {run.name: run for run in hub.rows.runs.values() if run.suite is found}
    if found.is_rerequested or not newest:
        return "queued", None
    if any(run.status != "completed" for run in newest.values()):
        return "in_progress", None
    conclusions = {run.conclusion for run in newest.values()}
    return "completed", next((name for name in _WORST if name in conclusions), None)


def suite(hub: Hub, found: CheckSuite) -> Json:
    """A ``check-suite``."""
    url = hub.urls.api(f"{repos.api_path(found.repo)}/check-suites/{found.id}")
    status, conclusion = suite_result(hub, found)
    info = found.repo.git.commit(found.head_sha)
    return {
        "id": found.id,
        "node_id": f"CS_{found.id}",
        "head_branch": found.head_branch,
        "head_sha": found.head_sha,
        "status": status,
        "conclusion": conclusion,
        "url": url,
        "before": info.parents[0] if info.parents else "0" * 40,
        "after": found.head_sha,
        "pull_requests": _pulls_at(hub, found),
        "app": people.app(hub.urls, found.app),
        "repository": repos.repository(hub.urls, found.repo),
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "head_commit": repos.simple_commit(info),
        "latest_check_runs_count": len({run.name for run in hub.rows.runs.values() if run.suite is found}),
        "check_runs_url": f"{url}/check-runs",
        "rerequestable": True,
        "runs_rerequestable": True,
    }


def annotation(hub: Hub, found: CheckRun, given: Json) -> Json:
    """A ``check-annotation``."""
    blob = hub.urls.web(f"/{found.suite.repo.full_name}/blob/{found.suite.head_sha}/{given['path']}")
    keys = ("path", "start_line", "end_line", "annotation_level", "message")
    optional = ("start_column", "end_column", "title", "raw_details")
    return {**{key: given[key] for key in keys}, **{key: given.get(key) for key in optional}, "blob_href": blob}
