"""Who we are to GitHub: the app's JWT, and installation tokens narrowed to one repository and our permissions.

Tokens are cached in Redis only, encrypted with a key derived from the app's private key, until 300 s before their
end. PyGithub's own cache lives in an object that every forked work-horse would lose.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from github import Auth

from bot.errors import InputError
from bot.github.errors import Gone, Invalid, NotFound
from bot.github.limits import AppGate
from bot.github.retry import Api
from bot.keys import TOKENS, all_derived
from bot.settings import WorkerSettings
from bot.store import DAY, Client, Keys

_log = logging.getLogger("preflight.github")
PERMISSIONS = {
    "metadata": "read",
    "contents": "read",
    "pull_requests": "write",
    "issues": "write",
    "checks": "write",
}
"""What a token of ours may do. `app.yml` asks for these and for ``merge_queues: read``, which only an event needs."""
READING = {"metadata": "read", "pull_requests": "read", "checks": "read"}
"""What the watch over all repositories of an installation needs."""
_EARLY = 300  # seconds before GitHub's expiry


class NotGranted(InputError):
    """The installation has not accepted a permission, or does not include a repository."""


class AppSigner:
    """The app's JWT. After a 401 it goes on with the other private key: one that GitHub does not know (any more), or
    not yet, must not stop a worker while keys are rotated."""

    def __init__(self, settings: WorkerSettings) -> None:
        app_id: int | str = int(settings.app_id) if settings.app_id.isdecimal() else settings.app_id
        self._auths = [Auth.AppAuth(app_id, key.reveal()) for key in settings.private_keys]

    def auth(self, is_refused: bool) -> Auth.AppAuth:
        """The credential to use now."""
        if is_refused and len(self._auths) > 1:
            _log.warning("GitHub refused the app's private key: going on with the other one")
            self._auths.append(self._auths.pop(0))
        return self._auths[0]


class AppCredentials:
    """Gives tokens; nothing else of the app's identity leaves this class."""

    def __init__(self, settings: WorkerSettings, client: Client, keys: Keys) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys
        self.api = Api(AppSigner(settings).auth, settings.api_url, AppGate(client, keys), settings.verify)
        keys_of_ours = all_derived(settings.private_keys, TOKENS)
        self._fernet = MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in keys_of_ours])

    def installation(
        self, installation_id: int, repo_id: int, *, fresh: bool = False, also: Mapping[str, str] | None = None
    ) -> Auth.Token:
        """A token for one repository of an installation; `fresh` skips the cache.

        `also` are permissions that an installation may grant on top; raises `InputError` where it does not.
        """
        return self._token(installation_id, [repo_id], {**PERMISSIONS, **(also or {})}, fresh=fresh)

    def reader(self, installation_id: int, *, fresh: bool = False) -> Auth.Token:
        """A token that sees all repositories of an installation and changes nothing."""
        return self._token(installation_id, [], READING, fresh=fresh)

    def _token(
        self, installation_id: int, repo_ids: list[int], permissions: dict[str, str], *, fresh: bool, name: str = ""
    ) -> Auth.Token:
        named = json.dumps([*repo_ids, permissions, *([name] if name else [])], sort_keys=True)
        key = self._keys.token(installation_id, hashlib.sha256(named.encode()).hexdigest()[:16])
        if not fresh and (cached := self._client.get(key)):
            try:
                return Auth.Token(self._fernet.decrypt(cached).decode())
            except InvalidToken:
                pass  # the app has a new private key
        body: dict[str, Any] = {"permissions": permissions} | ({"repository_ids": repo_ids} if repo_ids else {})
        body |= {"repositories": [name]} if name else {}
        token, lifetime = self._ask(installation_id, body)
        if lifetime > _EARLY:
            self._client.set(key, self._fernet.encrypt(token.encode()), ex=int(lifetime - _EARLY))
        return Auth.Token(token)

    def by_name(self, installation_id: int, name: str) -> Auth.Token | None:
        """A token that reads one repository of the installation's owner; None where the installation has none such."""
        permissions = {"metadata": "read", "contents": "read"}
        try:
            return self._token(installation_id, [], permissions, fresh=True, name=name)
        except NotGranted:
            return None

    def drop(self, installation_id: int) -> None:
        """Forget what is cached about an installation that changed: tokens of another scope, the owner's defaults."""
        self._client.delete(self._keys.owner_defaults(installation_id))
        for key in self._client.scan_iter(self._keys.token(installation_id, "*")):
            self._client.delete(key)

    def login(self) -> str:
        """The login of our bot user (``preflight[bot]``): only its comments are ours."""
        key = f"{self._keys.space}:app-login:{self._settings.app_id}"
        cached: Any = self._client.get(key)
        if cached:
            return str(cached, "utf-8")
        login = f"{self.api.get('/app')['slug']}[bot]"
        self._client.set(key, login.encode(), ex=DAY)
        return login

    def _ask(self, installation_id: int, body: dict[str, Any]) -> tuple[str, float]:
        try:
            answer = self.api.write("POST", f"/app/installations/{installation_id}/access_tokens", body)
        except NotFound:
            raise Gone(f"installation {installation_id} does not exist (any more)") from None
        except Invalid as error:
            text = f"the installation has not accepted a permission the app needs: {error.message}"
            raise NotGranted(text) from None
        ends = datetime.fromisoformat(str(answer["expires_at"]).replace("Z", "+00:00")).timestamp()
        return str(answer["token"]), ends - time.time()
