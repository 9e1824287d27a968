"""Reports of earlier reviews on single files, in Redis: the store that a review's child asks through its parent."""

from __future__ import annotations

import zlib
from contextlib import suppress

import redis

from bot.isolate.cache import MAX_ENTRY_BYTES
from bot.store import KNOWN_REPORT_MAX_BYTES, KNOWN_REPORT_TTL, Client, Keys


class KnownReports:
    """A `bot.isolate.cache.Store` of one repository. What Redis does not answer is not known."""

    def __init__(self, client: Client, keys: Keys, repo_id: int) -> None:
        self._client, self._keys, self._repo_id = client, keys, repo_id

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        try:
            packed = self._client.getex(self._keys.known_report(self._repo_id, key), ex=KNOWN_REPORT_TTL)
            if not isinstance(packed, bytes):
                return None
            return zlib.decompressobj().decompress(packed, 2 * MAX_ENTRY_BYTES)
        except (redis.RedisError, zlib.error):
            return None

    def put(self, key: str, entry: bytes) -> None:
        """See `Store`."""
        packed = zlib.compress(entry)
        if len(packed) <= KNOWN_REPORT_MAX_BYTES:
            with suppress(redis.RedisError):
                self._client.set(self._keys.known_report(self._repo_id, key), packed, ex=KNOWN_REPORT_TTL)
