"""Who is logged in. The cookie holds a random name; Redis holds, encrypted and for a few hours, what it stands for.

A session proves nothing about a repository by itself: GitHub is asked with the person's own token, and asked again
after a few minutes, so that a person who lost access loses the pages too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flask import Response, g, request

from bot.web.pages.context import Context
from bot.web.pages.github import GitHub, NoLonger

LIFE = 8 * 3_600
"""Seconds; GitHub's own tokens for people live as long."""
_ACCESS_LIFE = 300


class Sessions:
    """The session of the present request, kept in `flask.g`."""

    def __init__(self, context: Context, github: GitHub) -> None:
        self._context = context
        self._github = github
        settings = context.settings
        self.cookie = "__Host-preflight" if settings.is_https else "preflight"
        secret = settings.client_secret
        self._fernet = Fernet(_key(secret.reveal())) if settings.has_login and secret else None

    def login(self) -> str | None:
        """The login of the person, if there is one."""
        found = self._load()
        return str(found["login"]) if found else None

    def may_read(self, repo_id: int) -> bool:
        """Whether GitHub shows the person this repository. Raises `GitHubAway`."""
        found = self._load()
        if found is None:
            return False
        known = found["access"].get(str(repo_id))
        if known and known[1] > time.time():
            return bool(known[0])
        try:
            with self._context.slow():
                answer = self._github.reads(found["token"], repo_id)
        except NoLonger:
            self.forget()
            return False
        found["access"][str(repo_id)] = [answer, time.time() + _ACCESS_LIFE]
        self._save(found)
        return answer

    def find(self, full_name: str) -> int | None:
        """The id of a repository that the person can read. Raises `GitHubAway`."""
        found = self._load()
        if found is None:
            return None
        try:
            with self._context.slow():
                return self._github.find(found["token"], full_name)
        except NoLonger:
            self.forget()
            return None

    def start(self, answer: Response, token: str, login: str, seconds: int) -> None:
        """Log somebody in. The name of the session is new: one that somebody planted is worth nothing."""
        self.forget()
        name = secrets.token_urlsafe(32)
        life = max(60, min(LIFE, seconds))
        g.preflight_session_name = name
        self._save({"token": token, "login": login, "access": {}, "until": time.time() + life})
        answer.set_cookie(
            self.cookie,
            name,
            max_age=life,
            path="/",
            secure=self._context.settings.is_https,
            httponly=True,
            samesite="Lax",
        )

    def end(self, answer: Response) -> None:
        """Log out."""
        self.forget()
        answer.delete_cookie(
            self.cookie, path="/", secure=self._context.settings.is_https, httponly=True, samesite="Lax"
        )

    def forget(self) -> None:
        """Drop the session of this request."""
        if name := self._name():
            self._context.client.delete(self._redis_key(name))
        g.preflight_session = None

    def _name(self) -> str:
        return str(g.get("preflight_session_name") or request.cookies.get(self.cookie, ""))[:100]

    def _redis_key(self, name: str) -> str:
        return self._context.keys.session(hashlib.sha256(name.encode()).hexdigest())

    def _load(self) -> dict[str, Any] | None:
        if "preflight_session" not in g:
            g.preflight_session = self._read()
        found: dict[str, Any] | None = g.preflight_session
        return found

    def _read(self) -> dict[str, Any] | None:
        name = self._name()
        if not name or self._fernet is None:
            return None
        sealed: Any = self._context.client.get(self._redis_key(name))
        if not sealed:
            return None
        try:
            found: dict[str, Any] = json.loads(self._fernet.decrypt(sealed))
        except (InvalidToken, ValueError):
            return None
        return found if found["until"] > time.time() else None

    def _save(self, found: dict[str, Any]) -> None:
        assert self._fernet is not None
        g.preflight_session = found
        seconds = max(1, int(found["until"] - time.time()))
        sealed = self._fernet.encrypt(json.dumps(found).encode())
        self._context.client.set(self._redis_key(self._name()), sealed, ex=seconds)


def _key(secret: str) -> bytes:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"preflight session").derive(secret.encode())
    return base64.urlsafe_b64encode(derived)
