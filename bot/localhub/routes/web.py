"""What a browser and ``git push`` do on GitHub: make a repository, push to it, open a pull request, speak there, press
buttons. No passwords: the name given is who acts.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from flask import Blueprint, Response, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from bot.localhub import people, talk
from bot.localhub.errors import Refusal, not_found
from bot.localhub.model import Repository
from bot.localhub.routes import hub, service

routes = Blueprint("web", __name__)
_GIT_SECONDS = 120


@routes.get("/new")
def ask_repository() -> str:
    return render_template("new.html")


@routes.post("/new")
def make_repository() -> AnyResponse:
    """An empty repository; whoever makes it administers it."""
    owner, name = request.form.get("owner", "").strip(), request.form.get("name", "").strip()
    if not owner or not name or "/" in owner + name:
        raise Refusal(422, "owner and name are wanted")
    with hub().lock, tempfile.TemporaryDirectory() as empty:
        if any(one.full_name.lower() == f"{owner}/{name}".lower() for one in hub().rows.repositories.values()):
            raise Refusal(422, "Repository creation failed: name already exists on this account")
        subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", empty], check=True, timeout=_GIT_SECONDS)
        repo = hub().add_repository(f"{owner}/{name}", Path(empty))
        user = hub().account(request.form.get("user", "").strip() or "you")
        repo.roles[user.login.lower()] = "admin"
    return redirect(f"/{owner}/{name}")


@routes.get("/<owner>/<repo>")
def show_repository(owner: str, repo: str) -> str:
    with hub().lock:
        found = hub().repository(owner, repo)
        return render_template("repository.html", repo=found, pulls=hub().pulls(found), branches=found.git.branches())


@routes.get("/<owner>/<repo>/pull/new/<path:branch>")
def ask_pull(owner: str, repo: str, branch: str) -> str:
    with hub().lock:
        found = hub().repository(owner, repo)
        if branch not in found.git.branches():
            raise not_found()
        return render_template("new_pull.html", repo=found, branch=branch, title=branch.replace("-", " "))


@routes.post("/<owner>/<repo>/pull/new/<path:branch>")
def open_pull(owner: str, repo: str, branch: str) -> AnyResponse:
    with hub().lock:
        found = hub().repository(owner, repo)
        pull = people.open_pull(
            service(),
            found,
            title=request.form.get("title") or branch,
            body="",
            base=request.form.get("base") or found.default_branch,
            head=branch,
            author=hub().account(request.form.get("user", "").strip() or "you"),
        )
    return redirect(f"/{owner}/{repo}/pull/{pull.number}")


@routes.post("/<owner>/<repo>/pull/<int:number>/comment")
def say(owner: str, repo: str, number: int) -> AnyResponse:
    """In the conversation, or in the thread of the review comment `in_reply_to`."""
    text = request.form.get("body", "").replace("\r\n", "\n").strip()
    with hub().lock:
        author = hub().account(request.form.get("user", "").strip() or "you")
        pull = hub().pull(hub().repository(owner, repo), number)
        first = request.form.get("in_reply_to", 0, type=int)
        found = hub().rows.review_comments.get(first)
        if first and (found is None or found.pull is not pull):
            raise not_found()
        if found:
            talk.reply(service(), found, text, author)
        else:
            people.comment(service(), pull, text, author)
    return redirect(f"/{owner}/{repo}/pull/{number}")


@routes.post("/<owner>/<repo>/pull/<int:number>/press")
def press(owner: str, repo: str, number: int) -> AnyResponse:
    """A button of the check run `run`."""
    with hub().lock:
        pull = hub().pull(hub().repository(owner, repo), number)
        run = hub().rows.runs.get(request.form.get("run", 0, type=int))
        if run is None or run.suite.repo is not pull.repo:
            raise not_found()
        author = hub().account(request.form.get("user", "").strip() or "you")
        people.press(service(), run, request.form.get("identifier", ""), author)
    return redirect(f"/{owner}/{repo}/pull/{number}")


@routes.route("/<owner>/<repo>.git/<path:rest>", methods=["GET", "POST"])
def git_over_http(owner: str, repo: str, rest: str) -> Response:
    """The smart protocol, by git's own ``http-backend``; what a push moved is announced."""
    is_push = "git-receive-pack" in (rest, request.args.get("service"))
    if is_push and request.authorization is None:
        return Response("Who are you?\n", 401, {"WWW-Authenticate": 'Basic realm="a name, any password"'})
    name = (request.authorization.username if request.authorization else None) or "you"
    with hub().lock:
        found = hub().repository(owner, repo)
        before = found.git.branches()
        answer = _backend(found, rest, name)
        after = found.git.branches()
        for branch in sorted({*before, *after}):
            if branch in after and before.get(branch) != after[branch]:
                people.moved(service(), found, branch, before.get(branch), after[branch], hub().account(name))
    return answer


def _backend(repo: Repository, rest: str, name: str) -> Response:
    body = request.get_data()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {
        "GIT_PROJECT_ROOT": str(repo.git.path),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "PATH_INFO": f"/{rest}",
        "QUERY_STRING": request.query_string.decode("latin-1"),
        "REQUEST_METHOD": request.method,
        "CONTENT_TYPE": request.content_type or "",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        "REMOTE_USER": name,
        "REMOTE_ADDR": "127.0.0.1",
    }
    done = subprocess.run(
        ["git", "http-backend"], input=body, env=environment, capture_output=True, check=False, timeout=_GIT_SECONDS
    )
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line)
    status = int(headers.pop("Status", "200 OK" if done.returncode == 0 else "500 x").split()[0])
    return Response(content, status, headers)
