"""The owner's defaults: a configuration file in the ``.github`` repository of the organisation or person.

Most owners have none, and that must cost nothing: what is there and what is not are kept for hours, and dropped when
the installation changes or its ``.github`` repository is pushed to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bot.core.config import OWNER_PATHS
from bot.github.auth import AppCredentials
from bot.github.errors import Refused
from bot.github.retry import Api
from bot.store import OWNER_ABSENT_TTL, OWNER_TTL, Client, Keys

OWNER_REPOSITORY = ".github"
_MAX_CHARACTERS = 65_536


@dataclass(frozen=True, slots=True)
class OwnerFile:
    """A configuration file and where it lies, as ``owner/.github/path``."""

    place: str
    text: str


class OwnerDefaults:
    """Reads the file with a token for that repository alone: the installation has to include it."""

    def __init__(
        self, credentials: AppCredentials, client: Client, keys: Keys, api_url: str, verify: bool | str
    ) -> None:
        self._credentials = credentials
        self._client = client
        self._keys = keys
        self._api_url = api_url
        self._verify = verify
        self.calls = 0

    def read(self, installation_id: int, owner: str) -> OwnerFile | None:
        """The first of `OWNER_PATHS` on the default branch; None where there is none. Raises `Unavailable`."""
        key = self._keys.owner_defaults(installation_id)
        cached: Any = self._client.get(key)
        if cached:
            document = json.loads(cached)
            return OwnerFile(**document) if document else None
        found = self._ask(installation_id, owner)
        document = {"place": found.place, "text": found.text} if found else None
        self._client.set(key, json.dumps(document).encode(), ex=OWNER_TTL if found else OWNER_ABSENT_TTL)
        return found

    def _ask(self, installation_id: int, owner: str) -> OwnerFile | None:
        self.calls += 1
        token = self._credentials.by_name(installation_id, OWNER_REPOSITORY)
        if token is None:
            return None
        api = Api(lambda fresh: token, self._api_url, verify=self._verify)
        fields = " ".join(
            f"f{i}: object(expression: {json.dumps(f'HEAD:{path}')}) {{ ... on Blob {{ text }} }}"
            for i, path in enumerate(OWNER_PATHS)
        )
        query = f"query($owner: String!, $name: String!) {{ repository(owner: $owner, name: $name) {{ {fields} }} }}"
        try:
            objects = api.graphql(query, {"owner": owner, "name": OWNER_REPOSITORY}).get("repository") or {}
        except Refused:
            objects = {}
        self.calls += api.calls
        for i, path in enumerate(OWNER_PATHS):
            text = (objects.get(f"f{i}") or {}).get("text")
            if isinstance(text, str):
                return OwnerFile(f"{owner}/{OWNER_REPOSITORY}/{path}", text[: _MAX_CHARACTERS + 1])
        return None
