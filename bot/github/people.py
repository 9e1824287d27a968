"""Who wrote a pull request: authors, committers and co-authors of its commits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.github.retry import Api

MAX_COMMITS = 250
"""GitHub lists no more commits of a pull request."""
_CO_AUTHOR = re.compile(r"^co-authored-by:[^<\n]*<(?:\d+\+)?([^@>\n]+)@users\.noreply\.", re.IGNORECASE | re.MULTILINE)
_NOREPLY = re.compile(r"(?:\d+\+)?([^@]+)@users\.noreply\.", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """`logins` in lower case. An address that no account has claimed names nobody: git's names are free to choose, so
    this is no proof against somebody with write access who commits under another name."""

    logins: frozenset[str]
    is_cut: bool = False

    def includes(self, login: str) -> bool:
        """Whether this account wrote any of it."""
        return login.casefold() in self.logins


class Contributors:
    """The people of one repository's pull requests."""

    def __init__(self, api: Api, repo: str) -> None:
        self._api = api
        self._repo = repo

    def of_pull(self, number: int) -> People:
        """Everybody whose account is on a commit."""
        commits = list(self._api.pages(f"{self._repo}/pulls/{number}/commits", limit=MAX_COMMITS + 1))
        logins = {login.casefold() for commit in commits for login in _logins(commit)}
        return People(logins=frozenset(logins), is_cut=len(commits) >= MAX_COMMITS)


def _logins(commit: Mapping[str, Any]) -> Iterator[str]:
    git = commit.get("commit") or {}
    for role in ("author", "committer"):
        if login := (commit.get(role) or {}).get("login"):
            yield str(login)
        elif found := _NOREPLY.match(str((git.get(role) or {}).get("email") or "")):
            yield found[1]
    yield from _CO_AUTHOR.findall(str(git.get("message") or ""))
