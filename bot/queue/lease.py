"""Who of several supervisors does a duty: one at a time, and another when that one is gone."""

from __future__ import annotations

import secrets
from typing import Any

from bot.store import Client

_RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"


_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Lease:
    """A key of ours that ends by itself."""

    def __init__(self, client: Client, key: str) -> None:
        self._client = client
        self._key = key
        self._token = secrets.token_hex(16)

    def hold(self, seconds: float) -> bool:
        """Take or renew it for `seconds` (at least one); False while another has it."""
        lease_ms = int(max(1.0, seconds) * 1000)
        if self._client.set(self._key, self._token, nx=True, px=lease_ms):
            return True
        renewed: Any = self._client.eval(_RENEW, 1, self._key, self._token, str(lease_ms))
        return bool(renewed)

    def release(self) -> None:
        """Give it back, if it is still ours."""
        self._client.eval(_RELEASE, 1, self._key, self._token)
