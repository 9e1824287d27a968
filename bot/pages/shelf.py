"""Reports in Redis: compressed, with an expiry, a few for each pull request. They hold lines of private code."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from bot.pages.links import ReportRef
from bot.store import DAY, Client, Keys

MAX_PER_PULL = 5
MAX_STORED = 512 * 1024
"""Compressed bytes of one report; a larger one is not kept."""
_MAX_TEXT = 8 << 20


class Shelf:
    """Puts reports down and finds them again."""

    def __init__(self, client: Client, keys: Keys, days: int = 30) -> None:
        self._client = client
        self._keys = keys
        self._seconds = days * DAY

    def put(self, ref: ReportRef, document: Mapping[str, Any], now: float) -> bool:
        """Keep a report, in place of an earlier one of the same commit; False where it is too large."""
        packed = zlib.compress(json.dumps({**document, "made_at": int(now)}).encode(), 6)
        if len(packed) > MAX_STORED:
            return False
        index = self._keys.reports(ref.repo_id, ref.number)
        pipe = self._client.pipeline()
        pipe.set(self._keys.report(ref.repo_id, ref.number, ref.head_sha), packed, ex=self._seconds)
        pipe.zadd(index, {ref.head_sha: now})
        pipe.expire(index, self._seconds)
        pipe.zrange(index, 0, -MAX_PER_PULL - 1)
        old = [str(sha, "ascii") for sha in pipe.execute()[-1]]
        if old:
            pipe = self._client.pipeline()
            pipe.delete(*(self._keys.report(ref.repo_id, ref.number, sha) for sha in old))
            pipe.zrem(index, *old)
            pipe.execute()
        return True

    def get(self, ref: ReportRef) -> dict[str, Any] | None:
        """The report, or None: too old, flushed away, never made."""
        packed: Any = self._client.get(self._keys.report(ref.repo_id, ref.number, ref.head_sha))
        if packed is None:
            return None
        unpacker = zlib.decompressobj()
        try:
            document = json.loads(unpacker.decompress(packed, _MAX_TEXT))
        except (zlib.error, ValueError):
            return None
        return document if isinstance(document, dict) else None

    def is_under_way(self, ref: ReportRef) -> bool:
        """Whether a review of the commit is not concluded yet."""
        start = f"{ref.repo_id}-{ref.number}-{ref.head_sha}-"
        names: Any = self._client.zrange(self._keys.open_reviews(), 0, -1)
        return any(name.startswith(start.encode()) for name in names)
