"""Check runs, their annotations, check suites."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Blueprint, Response, jsonify, request

from bot.localhub import rules, webhooks
from bot.localhub.clock import now, stamp
from bot.localhub.errors import Refusal, not_found
from bot.localhub.model import App, CheckRun, CheckSuite, Json, Repository
from bot.localhub.payloads import checks
from bot.localhub.routes import caller, hub, json_body, paged, repository, service
from bot.localhub.suites import suite_for

routes = Blueprint("checks", __name__)
_RUN = "/repos/<owner>/<repo>/check-runs/<int:check_run_id>"


def _run(owner: str, repo: str, run_id: int) -> CheckRun:
    found = hub().rows.runs.get(run_id)
    if found is None or found.suite.repo is not repository(owner, repo):
        raise not_found()
    return found


def _own_run(owner: str, repo: str, run_id: int) -> CheckRun:
    found = _run(owner, repo, run_id)
    if found.suite.app is not caller().app:
        raise Refusal(403, "Invalid app_id for check run")
    return found


@routes.post("/repos/<owner>/<repo>/check-runs")
def create_run(owner: str, repo: str) -> tuple[Response, int]:
    found, body = repository(owner, repo), json_body()
    rules.check_run_body(body, is_new=True)
    sha = found.git.resolve(body["head_sha"]) if len(body["head_sha"]) == 40 else None
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {body['head_sha']}")
    suite = suite_for(hub(), found, caller().app, sha)
    suite.is_rerequested = False
    run = CheckRun(
        id=hub().new_id(),
        suite=suite,
        name=body["name"],
        external_id="",
        details_url="",
        status="queued",
        conclusion=None,
        started_at=stamp(now()),
        completed_at=None,
    )
    hub().rows.runs[run.id] = run
    _apply(run, body)
    _announce(run, "created")
    return jsonify(checks.run(hub(), run)), 201


@routes.patch(_RUN)
def update_run(owner: str, repo: str, check_run_id: int) -> Response:
    run, body = _own_run(owner, repo, check_run_id), json_body()
    if "head_sha" in body:
        raise Refusal(422, 'Invalid request.\n\n"head_sha" is not a permitted key.')
    rules.check_run_body(body, is_new=False)
    was_open = run.status != "completed"
    run.suite.is_rerequested = False
    _apply(run, body)
    if was_open and run.status == "completed":
        _announce(run, "completed")
    return jsonify(checks.run(hub(), run))


def _apply(run: CheckRun, body: Json) -> None:
    for key in ("name", "external_id", "details_url", "started_at", "completed_at", "actions"):
        if key in body:
            setattr(run, key, body[key])
    _move(run, body)
    output = body.get("output") or {}
    for key in ("title", "summary", "text"):
        if key in output:
            setattr(run, key, output[key])
    run.annotations += output.get("annotations", [])  # appended: a repeated request doubles them
    run.suite.updated_at = now()


def _move(run: CheckRun, body: Json) -> None:
    """Status and conclusion: a conclusion completes a run, another status takes the conclusion away."""
    if "conclusion" in body:
        run.status, run.conclusion = "completed", body["conclusion"]
        run.completed_at = body.get("completed_at") or stamp(now())
    elif "status" in body:
        run.status, run.conclusion, run.completed_at = body["status"], None, None


def _announce(run: CheckRun, action: str) -> None:
    payload = webhooks.check_run_event(hub(), run, action, caller().account)
    service().dispatcher.announce("check_run", run.suite.repo, payload, run.suite.app)


@routes.get(_RUN)
def get_run(owner: str, repo: str, check_run_id: int) -> Response:
    return jsonify(checks.run(hub(), _run(owner, repo, check_run_id)))


@routes.get(f"{_RUN}/annotations")
def list_annotations(owner: str, repo: str, check_run_id: int) -> Response:
    run = _run(owner, repo, check_run_id)
    return paged(run.annotations, lambda one: checks.annotation(hub(), run, one))


@routes.post(f"{_RUN}/rerequest")
def rerequest_run(owner: str, repo: str, check_run_id: int) -> tuple[Response, int]:
    run = _own_run(owner, repo, check_run_id)
    run.suite.is_rerequested = True
    _announce(run, "rerequested")
    return jsonify({}), 201


@routes.get("/repos/<owner>/<repo>/commits/<ref>/check-runs")
def list_runs(owner: str, repo: str, ref: str) -> Response:
    found = repository(owner, repo)
    runs = hub().runs_on(found, _resolved(found, ref))
    wanted = {key: request.args.get(key) for key in ("check_name", "status", "app_id")}
    chosen = [
        run
        for run in runs
        if wanted["check_name"] in {None, run.name}
        and wanted["status"] in {None, run.status}
        and wanted["app_id"] in {None, str(run.suite.app.id)}
    ]
    if request.args.get("filter", "latest") == "latest":
        chosen = _latest(chosen)
    return paged(chosen[::-1], lambda run: checks.run(hub(), run), wrap="check_runs")


def _latest(runs: Sequence[CheckRun]) -> list[CheckRun]:
    """The newest run of each name and app."""
    newest: dict[tuple[App, str], CheckRun] = {(run.suite.app, run.name): run for run in runs}
    return sorted(newest.values(), key=lambda run: run.id)


@routes.get("/repos/<owner>/<repo>/commits/<ref>/check-suites")
def list_suites(owner: str, repo: str, ref: str) -> Response:
    found = repository(owner, repo)
    sha = _resolved(found, ref)
    suites: list[CheckSuite] = [one for one in hub().rows.suites.values() if one.repo is found and one.head_sha == sha]
    app_id = request.args.get("app_id")
    chosen = [one for one in suites if app_id in {None, str(one.app.id)}]
    return paged(chosen, lambda one: checks.suite(hub(), one), wrap="check_suites")


def _resolved(repo: Repository, ref: str) -> str:
    sha = repo.git.resolve(ref)
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {ref}")
    return sha
