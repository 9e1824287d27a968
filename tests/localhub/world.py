"""A small repository with a pull request, a hub that serves it, and clients that talk to it."""

from __future__ import annotations

import functools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from github import Auth, Github

from bot.localhub import people
from bot.localhub.model import App, Installation, Pull, Repository
from bot.localhub.server import Server
from bot.localhub.state import AppSpec

PERMISSIONS = {
    "metadata": "read",
    "contents": "read",
    "pull_requests": "write",
    "issues": "write",
    "checks": "write",
    "merge_queues": "read",
}
EVENTS = (
    "pull_request",
    "issue_comment",
    "pull_request_review_comment",
    "check_run",
    "check_suite",
    "merge_group",
    "push",
)
SECRET = "a webhook secret"

BASE = "".join(f"line {number}\n" for number in range(1, 31))
HEAD = BASE.replace("line 3\n", "line three\nline three and a half\n").replace("line 25\n", "line 25!\n")


def git(where: Path, *args: str, stdin: bytes | None = None) -> str:
    """Run git in a work tree as a fixed person, without anybody's configuration."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "dana", f"GIT_{role}_EMAIL": "dana@example.invalid"}
    done = subprocess.run(["git", *args], cwd=where, env=environment, input=stdin, capture_output=True, check=True)
    return done.stdout.decode().strip()


def commit(where: Path, message: str, files: dict[str, bytes | str | None]) -> str:
    """Write (None: delete) files and commit them."""
    for name, content in files.items():
        path = where / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", message)
    return git(where, "rev-parse", "HEAD")


def new_repository(where: Path, files: dict[str, bytes | str | None]) -> Path:
    """A work tree with one commit on ``main``."""
    where.mkdir(parents=True)
    git(where, "init", "-q", "-b", "main")
    commit(where, "Begin", files)
    return where


@functools.cache
def app_key() -> tuple[str, str]:
    """One key for all tests: making one takes a while."""
    return new_key()


def new_key() -> tuple[str, str]:
    """A private and a public key, as PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


@dataclass
class World:
    """Everything a test of the hub needs at hand."""

    server: Server
    source: Path
    private_key: str
    app: App
    installation: Installation
    repo: Repository
    pull: Pull

    def jwt(self) -> str:
        """The app's own credential, as PyGithub makes it."""
        return str(Auth.AppAuth(self.app.id, self.private_key).create_jwt())

    def token(self, **narrowed: Any) -> str:
        """A new installation token."""
        path = f"/app/installations/{self.installation.id}/access_tokens"
        headers = {"Authorization": f"Bearer {self.jwt()}"}
        answer = requests.post(self.server.api_url + path, json=narrowed, headers=headers, timeout=10)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def client(self, **narrowed: Any) -> Github:
        """A PyGithub client with an installation token."""
        return Github(
            auth=Auth.Token(self.token(**narrowed)),
            base_url=self.server.api_url,
            retry=None,
            seconds_between_requests=0,
            seconds_between_writes=0,
            per_page=100,
        )

    def call(self, method: str, path: str, body: Any = None, *, token: str = "", **headers: str) -> requests.Response:
        """One plain request under the repository's path."""
        sent = {"Authorization": f"Bearer {token or self.token()}"} | headers
        url = f"{self.server.api_url}/repos/{self.repo.full_name}{path}"
        return requests.request(method, url, json=body, headers=sent, timeout=20, allow_redirects=False)


def build(server: Server, tmp: Path, *, webhook_url: str = "http://127.0.0.1:9/webhook") -> World:
    """A repository whose pull request changes two far-apart hunks of one file and adds another."""
    source = new_repository(tmp / "source", {"train.py": BASE, "README.md": "# demo\n"})
    git(source, "switch", "-q", "-c", "feature")
    commit(source, "Change", {"train.py": HEAD, "new/data.py": "x = 1\n"})
    private, public = app_key()
    hub = server.service.hub
    with hub.lock:
        spec = AppSpec(
            slug="preflight",
            public_key=public,
            webhook_url=webhook_url,
            webhook_secret=SECRET,
            permissions=PERMISSIONS,
            events=EVENTS,
        )
        app = hub.register_app(spec, "acme")
        repo = hub.add_repository("acme/trainer", source)
        repo.roles |= {"dana": "write", "olga": "read"}
        installation = hub.install(app, repo.owner)
        for login in ("olga", "mallory"):
            hub.account(login)
        pull = people.open_pull(
            server.service,
            repo,
            title="Train faster",
            body="Please **look**.",
            base="main",
            head="feature",
            author=hub.account("dana"),
        )
    return World(server, source, private, app, installation, repo, pull)
