"""Delivery claims and pull request generations."""

from __future__ import annotations

import re
from typing import Any

from redis import RedisError
from redis.client import Pipeline

from bot.errors import PreflightError
from bot.store import CLAIM_TTL, GENERATION_TTL, PENDING_MS, Client, Keys

_PENDING, _ACCEPTED = "pending", "accepted"
_HELD, _BUSY = -1, -2
# KEYS claim, generation (or none). Answers the new generation (0 without one), or why there is none.
_TAKE = """
if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if redis.call('get', KEYS[1]) == ARGV[1] then return -2 end
  return -1
end
if not KEYS[2] then return 0 end
local generation = redis.call('incr', KEYS[2])
redis.call('expire', KEYS[2], ARGV[3])
return generation
"""
_GIVE_BACK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
_DELIVERY = re.compile(r"[A-Za-z0-9\-]{1,64}")


class AlreadyAccepted(PreflightError):
    """The job of this delivery was queued before: a redelivery carries the same id."""


class BeingAccepted(PreflightError):
    """Another request holds this delivery id, for at most `PENDING_MS`."""


def is_delivery_id(text: str) -> bool:
    """A GUID as GitHub writes it: nothing else becomes part of a key."""
    return _DELIVERY.fullmatch(text) is not None


class Claims:
    """One live job per delivery id, one live review per pull request."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def take(self, delivery: str, pull: tuple[int, int] | None = None) -> int:
        """Hold the delivery for a moment; the new generation of `pull` (repository id, number), 0 without one.

        Raises `AlreadyAccepted` or `BeingAccepted`. A claim that is not confirmed goes by itself: a request that died
        between the two, or a command that a hung Redis ran after its time-out, must not lock the redelivery out.
        """
        keys = [self._keys.claim(delivery), *([self._keys.generation(*pull)] if pull else [])]
        found: Any = self._client.eval(_TAKE, len(keys), *keys, _PENDING, str(PENDING_MS), str(GENERATION_TTL))
        if int(found) == _HELD:
            raise AlreadyAccepted(delivery)
        if int(found) == _BUSY:
            raise BeingAccepted(delivery)
        return int(found)

    def confirm(self, delivery: str, pipe: Pipeline) -> None:
        """In the transaction that queues the job: a lasting claim means that the job is there."""
        pipe.set(self._keys.claim(delivery), _ACCEPTED, ex=CLAIM_TTL)

    def is_accepted(self, delivery: str) -> bool:
        """Its job was queued, whatever GitHub heard of it."""
        return bool(self._client.get(self._keys.claim(delivery)) == _ACCEPTED.encode())

    def give_back(self, delivery: str) -> None:
        """Enqueueing failed: let the redelivery in at once. Without Redis the claim goes by itself."""
        try:
            self._client.eval(_GIVE_BACK, 1, self._keys.claim(delivery), _PENDING)
        except RedisError:
            return

    def release(self, delivery: str) -> None:
        """Let a redelivery in again: the job finally failed."""
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
