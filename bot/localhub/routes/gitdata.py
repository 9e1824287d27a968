"""The Git database: blobs, trees and commits that nothing points at yet, and moving a branch to one."""

from __future__ import annotations

import base64
import binascii
import re

from flask import Blueprint, Response, jsonify

from bot.localhub import people
from bot.localhub.clock import now
from bot.localhub.errors import Refusal, not_found
from bot.localhub.gitrepo import CommitInfo, GitError
from bot.localhub.model import Json, Repository
from bot.localhub.payloads import repos
from bot.localhub.routes import caller, hub, json_body, repository, service

routes = Blueprint("gitdata", __name__)
_HEX = re.compile(r"[0-9a-f]{40}")
_MODES = frozenset({"100644", "100755", "040000", "160000", "120000"})


def _needed(body: Json, *keys: str) -> None:
    for key in keys:
        if key not in body:
            raise Refusal(422, f'Invalid request.\n\n"{key}" wasn\'t supplied.')


@routes.post("/repos/<owner>/<repo>/git/blobs")
def create_blob(owner: str, repo: str) -> tuple[Response, int]:
    found, body = repository(owner, repo), json_body()
    _needed(body, "content")
    try:
        is_encoded = body.get("encoding", "utf-8") == "base64"
        data = base64.b64decode(body["content"]) if is_encoded else str(body["content"]).encode()
    except (binascii.Error, ValueError):
        raise Refusal(422, "content is not valid Base64") from None
    sha = found.git.write_blob(data)
    return jsonify({"sha": sha, "url": hub().urls.api(f"{repos.api_path(found)}/git/blobs/{sha}")}), 201


@routes.post("/repos/<owner>/<repo>/git/trees")
def create_tree(owner: str, repo: str) -> tuple[Response, int]:
    found, body = repository(owner, repo), json_body()
    _needed(body, "tree")
    entries = []
    for entry in body["tree"]:
        if entry.get("mode") not in _MODES or not entry.get("path"):
            raise Refusal(422, "tree.mode or tree.path is not a valid value")
        sha = entry["sha"] if "sha" in entry else found.git.write_blob(str(entry.get("content", "")).encode())
        if sha is not None and found.git.object_type(sha) is None:
            raise Refusal(422, f"tree.sha {sha} is not a valid blob")
        entries.append((str(entry["mode"]), sha, str(entry["path"])))
    try:
        index = hub().data_dir / f"index-{hub().new_id()}"
        made = found.git.write_tree(body.get("base_tree"), entries, index)
    except GitError as error:
        raise Refusal(422, str(error)) from None
    listed = [repos.tree_entry(hub().urls, found, item) for item in found.git.tree(made)]
    url = hub().urls.api(f"{repos.api_path(found)}/git/trees/{made}")
    return jsonify({"sha": made, "url": url, "tree": listed, "truncated": False}), 201


@routes.post("/repos/<owner>/<repo>/git/commits")
def create_commit(owner: str, repo: str) -> tuple[Response, int]:
    found, body = repository(owner, repo), json_body()
    _needed(body, "message", "tree")
    parents = list(body.get("parents", []))
    if found.git.object_type(body["tree"]) != "tree":
        raise Refusal(422, "Tree SHA does not exist")
    if any(found.git.object_type(parent) != "commit" for parent in parents):
        raise Refusal(422, "Parent SHA does not exist or is not a commit object")
    name = str((body.get("author") or {}).get("name") or caller().account.login)
    date = now().strftime("%Y-%m-%dT%H:%M:%S+0000")
    sha = found.git.commit_tree(body["tree"], parents, str(body["message"]), name, date)
    return jsonify(_commit(found, found.git.commit(sha))), 201


@routes.get("/repos/<owner>/<repo>/git/commits/<commit_sha>")
def get_commit(owner: str, repo: str, commit_sha: str) -> Response:
    found = repository(owner, repo)
    if not _HEX.fullmatch(commit_sha) or found.git.object_type(commit_sha) != "commit":
        raise not_found()
    return jsonify(_commit(found, found.git.commit(commit_sha)))


@routes.get("/repos/<owner>/<repo>/git/ref/<path:ref>")
def get_ref(owner: str, repo: str, ref: str) -> Response:
    found = repository(owner, repo)
    sha = found.git.branches().get(ref.removeprefix("heads/")) if ref.startswith("heads/") else None
    if sha is None:
        raise not_found()
    return jsonify(_ref(found, ref, sha))


@routes.patch("/repos/<owner>/<repo>/git/refs/<path:ref>")
def update_ref(owner: str, repo: str, ref: str) -> Response:
    """Without `force` only forward. A protected branch takes no push of an app."""
    found, body = repository(owner, repo), json_body()
    _needed(body, "sha")
    branch = ref.removeprefix("heads/")
    old = found.git.branches().get(branch) if ref.startswith("heads/") else None
    if old is None:
        raise Refusal(422, "Reference does not exist")
    if branch in found.protected:
        text = f"Repository rule violations found\n\nChanges must be made through a pull request to {branch}."
        raise Refusal(422, text)
    sha = str(body["sha"])
    if not _HEX.fullmatch(sha) or found.git.object_type(sha) != "commit":
        raise Refusal(422, "Object does not exist")
    if not body.get("force", False) and not found.git.is_ancestor(old, sha):
        raise Refusal(422, "Update is not a fast forward")
    people.move_branch(service(), found, branch, sha, caller().account)
    return jsonify(_ref(found, ref, sha))


def _ref(repo: Repository, ref: str, sha: str) -> Json:
    api = repos.api_path(repo)
    return {
        "ref": f"refs/{ref}",
        "node_id": f"REF_{ref}",
        "url": hub().urls.api(f"{api}/git/refs/{ref}"),
        "object": {"sha": sha, "type": "commit", "url": hub().urls.api(f"{api}/git/commits/{sha}")},
    }


def _commit(repo: Repository, info: CommitInfo) -> Json:
    """A ``git-commit``. GitHub signs what an app's bot user commits without naming an author."""
    whole = repos.commit(hub().urls, repo, info)
    unsigned = {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}
    return {
        "sha": info.sha,
        "node_id": whole["node_id"],
        "url": whole["commit"]["url"],
        "html_url": whole["html_url"],
        "author": whole["commit"]["author"],
        "committer": whole["commit"]["committer"],
        "tree": whole["commit"]["tree"],
        "message": info.message,
        "parents": whole["parents"],
        "verification": unsigned,
    }
