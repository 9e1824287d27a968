"""Pull requests: list, one, its files and commits."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from bot.localhub.errors import Refusal
from bot.localhub.payloads import pulls, repos
from bot.localhub.routes import hub, paged, repository
from bot.localhub.routes.repos import commit_json

routes = Blueprint("pulls", __name__)

MAX_FILES = 3000
MAX_DIFF_FILES = 300
MAX_DIFF_LINES = 20_000


@routes.get("/repos/<owner>/<repo>/pulls")
def list_pulls(owner: str, repo: str) -> Response:
    found = hub().pulls(repository(owner, repo))
    state = request.args.get("state", "open")
    base, head = request.args.get("base"), request.args.get("head")
    key = "updated_at" if request.args.get("sort") == "updated" else "created_at"
    is_rising = request.args.get("direction", "desc" if key == "updated_at" or "sort" not in request.args else "asc")
    found = sorted(found, key=lambda one: (getattr(one, key), one.number), reverse=is_rising != "asc")
    chosen = [
        pull
        for pull in found
        if state in {"all", pull.state}
        and base in {None, pull.base_ref}
        and head in {None, f"{pull.head_owner.login}:{pull.head_ref}"}
    ]
    return paged(chosen, lambda pull: pulls.simple(hub(), pull))


@routes.get("/repos/<owner>/<repo>/pulls/<int:pull_number>")
def get_pull(owner: str, repo: str, pull_number: int) -> Response:
    pull = hub().pull(repository(owner, repo), pull_number)
    if "diff" in request.headers.get("Accept", ""):
        diff = pull.repo.git.diff_patch(hub().merge_base(pull), pull.head_sha)
        if len(hub().files(pull)) > MAX_DIFF_FILES or diff.count(b"\n") > MAX_DIFF_LINES:
            errors = [{"resource": "PullRequest", "field": "diff", "code": "too_large"}]
            raise Refusal(406, "Sorry, the diff exceeded the maximum number of lines (20000)", errors)
        return Response(diff, mimetype="application/vnd.github.diff")
    return jsonify(pulls.full(hub(), pull))


@routes.get("/repos/<owner>/<repo>/pulls/<int:pull_number>/files")
def list_files(owner: str, repo: str, pull_number: int) -> Response:
    pull = hub().pull(repository(owner, repo), pull_number)
    return paged(hub().files(pull)[:MAX_FILES], lambda one: repos.file(hub().urls, pull.repo, pull.head_sha, one))


@routes.get("/repos/<owner>/<repo>/pulls/<int:pull_number>/commits")
def list_commits(owner: str, repo: str, pull_number: int) -> Response:
    pull = hub().pull(repository(owner, repo), pull_number)
    return paged(hub().commits(pull)[:250], lambda sha: commit_json(pull.repo, sha))
