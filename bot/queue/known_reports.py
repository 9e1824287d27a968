"""Reports of earlier reviews on single files, in Redis: the store that a review's child asks through its parent."""

from __future__ import annotations

import zlib
from contextlib import suppress

import redis

from bot.github.pulls import PullInfo
from bot.isolate.cache import MAX_ENTRY_BYTES
from bot.store import KNOWN_REPORT_MAX_BYTES, KNOWN_REPORT_TTL, Client, Keys


class KnownReports:
    """A `bot.isolate.cache.Store` of one repository. What Redis does not answer is not known.

    `fork` names the repository of a head that lies elsewhere. Its entries are its own: a child that its code broke into
    must not decide what is said of other pull requests. It reads those of the repository itself.
    """

    def __init__(self, client: Client, keys: Keys, repo_id: int, fork: str = "") -> None:
        self._client, self._keys, self._repo_id, self._fork = client, keys, repo_id, fork

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        try:
            for fork in dict.fromkeys((self._fork, "")):
                packed = self._client.getex(self._keys.known_report(self._repo_id, key, fork), ex=KNOWN_REPORT_TTL)
                if isinstance(packed, bytes):
                    return zlib.decompressobj().decompress(packed, 2 * MAX_ENTRY_BYTES)
        except (redis.RedisError, zlib.error):
            return None
        return None

    def put(self, key: str, entry: bytes) -> None:
        """See `Store`."""
        packed = zlib.compress(entry)
        if len(packed) <= KNOWN_REPORT_MAX_BYTES:
            with suppress(redis.RedisError):
                self._client.set(self._keys.known_report(self._repo_id, key, self._fork), packed, ex=KNOWN_REPORT_TTL)


def fork_of(pull: PullInfo) -> str:
    """The repository of a pull request's head where that is another one; the pull request itself where it is gone."""
    head = pull.head_full_name
    return "" if head == pull.full_name else (head or f"#{pull.number}").lower()
