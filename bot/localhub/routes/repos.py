"""Repositories: metadata, commits, comparisons, trees, blobs, contents, archives."""

from __future__ import annotations

import re
import secrets
import time

from flask import Blueprint, Response, jsonify, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from bot.localhub.errors import Refusal, not_found
from bot.localhub.gitrepo import GitError, GitRepo, TreeEntry
from bot.localhub.model import Json, Repository
from bot.localhub.payloads import people, pulls, repos
from bot.localhub.routes import hub, paged, repository

routes = Blueprint("repos", __name__)

MAX_TREE_ENTRIES = 100_000
MAX_COMPARE_FILES = 300
MAX_COMPARE_COMMITS = 250
MAX_RAW_BYTES = 100 * 1024 * 1024
LINK_SECONDS = 300
_HEX = re.compile(r"[0-9a-f]{40}")
# key of a short-lived archive link -> repository, commit, end of its life
archive_links: dict[str, tuple[Repository, str, float]] = {}


@routes.get("/repos/<owner>/<repo>")
def get_repository(owner: str, repo: str) -> Response:
    return jsonify(repos.repository(hub().urls, repository(owner, repo)))


@routes.get("/repos/<owner>/<repo>/collaborators/<username>/permission")
def collaborator_permission(owner: str, repo: str, username: str) -> Response:
    found = repository(owner, repo)
    person = hub().rows.accounts.get(username.lower())
    if person is None:
        raise Refusal(404, f"{username} is not a user")
    return jsonify(people.collaborator(hub().urls, found, person))


def _commit_of(repo: Repository, ref: str) -> str:
    sha = repo.git.resolve(ref)
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {ref}")
    return sha


def commit_json(repo: Repository, sha: str) -> Json:
    """A ``commit`` without files."""
    return repos.commit(hub().urls, repo, repo.git.commit(sha))


@routes.get("/repos/<owner>/<repo>/commits/<path:ref>")
def get_commit(owner: str, repo: str, ref: str) -> Response:
    found = repository(owner, repo)
    sha = _commit_of(found, ref)
    body = commit_json(found, sha)
    parents = body["parents"]
    files = hub().diff(found.git, parents[0]["sha"], sha) if parents else []
    additions, deletions = sum(one.additions for one in files), sum(one.deletions for one in files)
    stats = {"additions": additions, "deletions": deletions, "total": additions + deletions}
    listed = [repos.file(hub().urls, found, sha, one) for one in files[:MAX_COMPARE_FILES]]
    return jsonify(body | {"stats": stats, "files": listed})


@routes.get("/repos/<owner>/<repo>/commits/<commit_sha>/pulls")
def commit_pulls(owner: str, repo: str, commit_sha: str) -> Response:
    """For the head of a fork the list is empty, as on GitHub."""
    found = repository(owner, repo)
    sha = _commit_of(found, commit_sha)
    own = [pull for pull in hub().pulls(found) if pull.head_repo is found]
    holding = [pull for pull in own if sha in hub().commits(pull)]
    return paged(holding, lambda pull: pulls.simple(hub(), pull))


@routes.get("/repos/<owner>/<repo>/compare/<path:basehead>")
def compare(owner: str, repo: str, basehead: str) -> Response:
    found = repository(owner, repo)
    base_name, dots, head_name = basehead.partition("...")
    if not dots:
        raise not_found()
    base, head = (found.git.resolve(name.rpartition(":")[2]) for name in (base_name, head_name))
    if base is None or head is None:
        raise not_found()
    merge_base = found.git.merge_base(base, head)
    if merge_base is None:
        raise Refusal(404, f"No common ancestor between {base_name} and {head_name}.")
    ahead, behind = found.git.rev_list(head, f"^{base}"), found.git.rev_list(base, f"^{head}")
    status = {(True, True): "diverged", (True, False): "ahead", (False, True): "behind"}
    html = hub().urls.web(f"/{found.full_name}/compare/{basehead}")
    files = hub().diff(found.git, merge_base, head)[:MAX_COMPARE_FILES]
    return jsonify(
        {
            "url": hub().urls.api(f"{repos.api_path(found)}/compare/{basehead}"),
            "html_url": html,
            "permalink_url": html,
            "diff_url": f"{html}.diff",
            "patch_url": f"{html}.patch",
            "base_commit": commit_json(found, base),
            "merge_base_commit": commit_json(found, merge_base),
            "status": status.get((bool(ahead), bool(behind)), "identical"),
            "ahead_by": len(ahead),
            "behind_by": len(behind),
            "total_commits": len(ahead),
            "commits": [commit_json(found, sha) for sha in ahead[:MAX_COMPARE_COMMITS]],
            "files": [repos.file(hub().urls, found, head, one) for one in files],
        }
    )


@routes.get("/repos/<owner>/<repo>/git/trees/<path:tree_sha>")
def get_tree(owner: str, repo: str, tree_sha: str) -> Response:
    found = repository(owner, repo)
    kind = found.git.object_type(tree_sha) if _HEX.fullmatch(tree_sha) else None
    treeish = tree_sha if kind in {"tree", "commit"} else found.git.resolve(tree_sha)
    if treeish is None:
        raise not_found()
    entries = found.git.tree(treeish, recursive=bool(request.args.get("recursive")))
    sha = found.git.text("rev-parse", f"{treeish}^{{tree}}")
    rows = [repos.tree_entry(hub().urls, found, entry) for entry in entries[:MAX_TREE_ENTRIES]]
    url = hub().urls.api(f"{repos.api_path(found)}/git/trees/{sha}")
    return jsonify({"sha": sha, "url": url, "tree": rows, "truncated": len(entries) > MAX_TREE_ENTRIES})


def _wants_raw() -> bool:
    return "raw" in request.headers.get("Accept", "")


def _raw(data: bytes) -> Response:
    return Response(data, mimetype="application/vnd.github.raw+json")


@routes.get("/repos/<owner>/<repo>/git/blobs/<file_sha>")
def get_blob(owner: str, repo: str, file_sha: str) -> Response:
    found = repository(owner, repo)
    if not _HEX.fullmatch(file_sha):
        raise Refusal(422, "The sha parameter must be exactly 40 characters and contain only [0-9a-f].")
    data = found.git.blob(file_sha)
    if data is None:
        raise not_found()
    return _raw(data) if _wants_raw() else jsonify(repos.blob(hub().urls, found, file_sha, data))


@routes.get("/repos/<owner>/<repo>/contents/")
@routes.get("/repos/<owner>/<repo>/contents/<path:path>")
def get_contents(owner: str, repo: str, path: str = "") -> Response:
    found = repository(owner, repo)
    ref = request.args.get("ref") or found.default_branch
    sha = found.git.resolve(ref)
    if sha is None:
        raise Refusal(404, f"No commit found for the ref {ref}")
    path = path.strip("/")
    entry = found.git.entry(sha, path) if path else None
    if path and entry is None:
        raise not_found()
    if entry is None or entry.type == "tree":
        return _directory(found, ref, sha, path)
    return _file(found, ref, path, entry)


def _directory(repo: Repository, ref: str, sha: str, path: str) -> Response:
    prefix = f"{path}/" if path else ""
    rows = []
    for entry in repo.git.tree(sha, path)[:1000]:
        row = repos.content(hub().urls, repo, ref, prefix + entry.path, entry)
        # The version 2022-11-28 lists submodules as files.
        rows.append(row | {"type": "file"} if row["type"] == "submodule" else row)
    return jsonify(rows)


def _file(repo: Repository, ref: str, path: str, entry: TreeEntry) -> Response:
    if entry.type == "commit":
        return jsonify(repos.content(hub().urls, repo, ref, path, entry) | {"submodule_git_url": None})
    data = repo.git.blob(entry.sha) or b""
    if len(data) > MAX_RAW_BYTES:
        raise Refusal(403, "This API returns blobs up to 100 MB in size.")
    return _raw(data) if _wants_raw() else jsonify(repos.file_content(hub().urls, repo, ref, path, entry, data))


@routes.get("/repos/<owner>/<repo>/tarball/")
@routes.get("/repos/<owner>/<repo>/tarball/<path:ref>")
def tarball(owner: str, repo: str, ref: str = "") -> AnyResponse:
    found = repository(owner, repo)
    sha = found.git.resolve(ref or found.default_branch)
    if sha is None:
        raise not_found()
    key = secrets.token_urlsafe(24)
    archive_links[key] = (found, sha, time.monotonic() + LINK_SECONDS)
    return redirect(hub().urls.web(f"/_codeload/{key}"), 302)


def archive(key: str) -> Response:
    """The file behind a short-lived link; it needs no token, as on GitHub."""
    repo, sha, end = archive_links.get(key, (None, "", 0.0))
    if repo is None or end < time.monotonic():
        raise not_found()
    return Response(_packed(repo.git, repo, sha), mimetype="application/x-gzip")


def _packed(git: GitRepo, repo: Repository, sha: str) -> bytes:
    try:
        return git.archive(sha, f"{repo.owner.login}-{repo.name}-{sha[:7]}")
    except GitError as error:
        raise Refusal(404, str(error)) from None
