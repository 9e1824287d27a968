"""Delivery claims and pull request generations."""

from __future__ import annotations

import re

from bot.store import CLAIM_TTL, GENERATION_TTL, Client, Keys

_DELIVERY = re.compile(r"[A-Za-z0-9\-]{1,64}")


def is_delivery_id(text: str) -> bool:
    """A GUID as GitHub writes it: nothing else becomes part of a key."""
    return _DELIVERY.fullmatch(text) is not None


class Claims:
    """One live job per delivery id, one live review per pull request."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def claim(self, delivery: str) -> bool:
        """False where the delivery was accepted before: a redelivery carries the same id."""
        return bool(self._client.set(self._keys.claim(delivery), "1", nx=True, ex=CLAIM_TTL))

    def release(self, delivery: str) -> None:
        """Let a redelivery in again: enqueueing failed, or the job finally did."""
        self._client.delete(self._keys.claim(delivery))

    def next_generation(self, repo_id: int, number: int) -> int:
        """Supersede what runs for this pull request."""
        key = self._keys.generation(repo_id, number)
        pipe = self._client.pipeline()
        pipe.incr(key)
        pipe.expire(key, GENERATION_TTL)
        return int(pipe.execute()[0])

    def generation(self, repo_id: int, number: int) -> int:
        """The newest generation; 0 after a flush (then nothing is superseded)."""
        return int(self._client.get(self._keys.generation(repo_id, number)) or 0)
