"""Where ``preflight gate --sha`` learns what the check of a commit says: from the Preflight server (a login node then
needs no GitHub token), or from GitHub itself.

| | from the server | from GitHub |
| --- | --- | --- |
| address | ``PREFLIGHT_GATE_URL`` | ``GITHUB_API_URL`` (github.com without it) |
| credential | ``PREFLIGHT_GATE_TOKEN`` or ``…_FILE`` | ``GITHUB_TOKEN`` or ``GH_TOKEN`` (checks: read) |
| whose check | the server's own app | ``PREFLIGHT_APP_ID`` |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bot.core.gate import Check, check_from_json
from bot.errors import InputError, Unavailable
from bot.redact import redact

if TYPE_CHECKING:
    import requests

_TIMEOUT = 20
_ADDRESS = re.compile(r"(?:[\w.+-]+@[^:/]+:|[a-z+]+://(?:[^@/]+@)?[^/]+/)(?P<name>[\w.\-]+/[\w.\-]+?)(?:\.git)?/?")
_REPOSITORY = re.compile(r"[\w.\-]{1,100}/[\w.\-]{1,100}|\d{1,19}")


def repository_of(given: str | None, address: str) -> str:
    """``owner/name`` or an id: as given, else what the remote ``origin`` is called. Raises `InputError`."""
    if given is not None:
        if not _REPOSITORY.fullmatch(given):
            raise InputError(f"--repository {given[:100]!r}: give owner/name or the repository's id")
        return given
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InputError("the remote origin does not say which repository this is: give --repository owner/name")
    return match["name"]


def check_of_commit(repository: str, sha: str, environment: Mapping[str, str]) -> Check:
    """The check of a commit. Raises `InputError`, `Refused` and `Unavailable`: then nothing may run."""
    server = environment.get("PREFLIGHT_GATE_URL", "").strip()
    return _from_server(server, repository, sha, environment) if server else _from_github(repository, sha, environment)


def _why(answer: requests.Response) -> str:
    """What a refusal of the server means to the person at the gate."""
    if answer.status_code == 401:
        return "it does not know this token (PREFLIGHT_GATE_TOKEN), or the token has expired"
    try:
        return redact(str(answer.json()["message"]))[:300]
    except (ValueError, KeyError, TypeError):  # not the gate's own words
        is_absent = answer.status_code == 404
        return "it has no gate: PREFLIGHT_GATE_TOKENS_FILE is not set there" if is_absent else redact(answer.text)[:300]


def _from_server(server: str, repository: str, sha: str, environment: Mapping[str, str]) -> Check:
    import requests

    parts = urlsplit(server)
    is_private = parts.scheme == "https" or parts.hostname in {"127.0.0.1", "::1", "localhost"}
    if parts.scheme not in {"http", "https"} or not is_private:
        raise InputError("PREFLIGHT_GATE_URL: an https address is wanted, because a token is sent to it")
    token = _secret(environment, "PREFLIGHT_GATE_TOKEN")
    if not repository.isdecimal():
        raise InputError(
            f"the Preflight server knows a repository by its id: --repository ID (gh api repos/{repository} --jq .id)"
        )
    url = f"{server.rstrip('/')}/gate/{repository}/{sha}"
    try:
        answer = requests.get(
            url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=_TIMEOUT,
            allow_redirects=False,
            verify=environment.get("PREFLIGHT_CA_FILE") or True,
        )
        document = answer.json() if answer.status_code == 200 else {}
    except requests.RequestException as error:
        raise Unavailable(f"no answer from the Preflight server ({type(error).__name__})") from None
    if answer.status_code != 200:
        raise InputError(f"the Preflight server answered {answer.status_code}: {_why(answer)}")
    return check_from_json(document)


def _from_github(repository: str, sha: str, environment: Mapping[str, str]) -> Check:
    from github import Auth

    from bot.github.gate import memory_check
    from bot.github.retry import Api

    token = environment.get("GITHUB_TOKEN") or environment.get("GH_TOKEN") or ""
    app_id = environment.get("PREFLIGHT_APP_ID", "").strip()
    if not token:
        raise InputError("who may read the check? Set PREFLIGHT_GATE_URL and PREFLIGHT_GATE_TOKEN, or GITHUB_TOKEN")
    if not app_id.isdecimal():
        raise InputError("PREFLIGHT_APP_ID: the numeric id of the app whose check counts is wanted")
    url = environment.get("GITHUB_API_URL", "").strip() or "https://api.github.com"
    auth = Auth.Token(token)
    api = Api(lambda fresh: auth, url.rstrip("/"), verify=environment.get("PREFLIGHT_CA_FILE") or True)
    return memory_check(api, repository, sha, int(app_id))


def _secret(environment: Mapping[str, str], name: str) -> str:
    """The variable, or the content of the file that NAME_FILE points at."""
    if path := environment.get(f"{name}_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{name}_FILE: {type(error).__name__} reading {path}") from None
    value = environment.get(name, "").strip()
    if not value:
        raise InputError(f"{name} (or {name}_FILE) is not set")
    return value
