"""GitHub, as one person sees it: the web flow of the App, who it was, and whether that one may read a repository.

No answer of GitHub is shown, no token leaves this file but into the encrypted session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import requests

from bot.pages.settings import PageSettings

_TIMEOUT = (3.05, 8.0)
_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28", "User-Agent": "preflight"}


class GitHubAway(Exception):
    """GitHub did not answer, or not as it should."""


class NoLonger(Exception):
    """GitHub does not take the person's token any more."""


class LoginRefused(Exception):
    """GitHub did not take the code."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who logged in. `seconds` is how long the token lives."""

    login: str
    token: str
    seconds: int


class GitHub:
    """Calls with time limits and no redirects."""

    def __init__(self, settings: PageSettings) -> None:
        self._settings = settings

    @property
    def callback(self) -> str:
        """Where GitHub sends people back to."""
        return f"{self._settings.public_url}/login/callback"

    def authorize_url(self, state: str, challenge: str) -> str:
        """Where a person says yes."""
        query = {
            "client_id": self._settings.client_id,
            "redirect_uri": self.callback,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "allow_signup": "false",
        }
        return f"{self._settings.github_url}/login/oauth/authorize?{urlencode(query)}"

    def person(self, code: str, verifier: str) -> Person:
        """Who brought the code. Raises `LoginRefused` or `GitHubAway`."""
        secret = self._settings.client_secret
        assert secret is not None
        form = {
            "client_id": self._settings.client_id,
            "client_secret": secret.reveal(),
            "code": code,
            "redirect_uri": self.callback,
            "code_verifier": verifier,
        }
        answer = self._call("POST", f"{self._settings.github_url}/login/oauth/access_token", data=form)
        document = _json(answer)
        token = document.get("access_token")
        if not isinstance(token, str) or not token:  # GitHub says 200 and an `error`
            raise LoginRefused
        user = self._call("GET", f"{self._settings.api_url}/user", token=token)
        login = _json(user).get("login") if user.status_code == 200 else None
        if not isinstance(login, str):
            raise GitHubAway
        seconds = document.get("expires_in")
        return Person(login, token, seconds if isinstance(seconds, int) else 3_600)

    def reads(self, token: str, repo_id: int) -> bool:
        """Whether the person can read a repository. Raises `NoLonger` or `GitHubAway`."""
        return self._sees(token, f"/repositories/{repo_id}") is not None

    def find(self, token: str, full_name: str) -> int | None:
        """The id of a repository the person can read."""
        owner, _, name = full_name.partition("/")
        return self._sees(token, f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}")

    def _sees(self, token: str, path: str) -> int | None:
        answer = self._call("GET", self._settings.api_url + path, token=token)
        if answer.status_code == 200:
            found = _json(answer).get("id")
            return found if isinstance(found, int) else None
        if answer.status_code == 401:
            raise NoLonger
        if answer.status_code in (403, 404, 451) and "rate limit" not in answer.text.lower():
            return None
        raise GitHubAway

    def _call(self, verb: str, url: str, *, token: str = "", data: dict[str, str] | None = None) -> requests.Response:
        headers = (
            {**_HEADERS, "Authorization": f"Bearer {token}"} if token else {**_HEADERS, "Accept": "application/json"}
        )
        try:
            with requests.Session() as session:
                session.trust_env = False  # a .netrc would replace the person's credential
                session.proxies = requests.utils.get_environ_proxies(url)
                return session.request(
                    verb,
                    url,
                    headers=headers,
                    data=data,
                    timeout=_TIMEOUT,
                    allow_redirects=False,
                    verify=self._settings.verify,
                )
        except requests.RequestException:
            raise GitHubAway from None


def _json(answer: requests.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        raise GitHubAway from None
    if answer.status_code >= 500 or not isinstance(document, dict):
        raise GitHubAway
    return document
