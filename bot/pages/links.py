"""Signed links to a report: bound to repository, pull request and commit, good until a day, made by workers.

A check run is seen by everybody who may read its repository, so they may follow the link in it. It ends, because links
are copied. One that has ended still says what it was for: whoever logs in and may read that repository goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from itsdangerous import BadData, URLSafeSerializer

from bot.settings import Secret
from bot.store import DAY

MAX_TOKEN = 400
_PURPOSE = b"preflight report link"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRef:
    """Which report."""

    repo_id: int
    number: int
    head_sha: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A link of ours. `expires` is in epoch seconds."""

    ref: ReportRef
    expires: int

    def is_over(self, now: float) -> bool:
        """Whether only a login opens it."""
        return now >= self.expires


class Signer:
    """Makes and opens tokens. The first secret signs; the others (one that was just replaced) still open."""

    def __init__(self, secrets: Sequence[Secret], days: int) -> None:
        keys = [_derived(secret) for secret in secrets]
        options = {"digest_method": hashlib.sha256, "key_derivation": "hmac"}
        # itsdangerous signs with the last key of the list and tries them all.
        self._serializer = URLSafeSerializer(keys[::-1], salt=_PURPOSE, signer_kwargs=options)
        self._days = days

    def sign(self, ref: ReportRef, now: float) -> str:
        """A token. It ends at a full day, so that a job that runs twice makes the same one."""
        expires = (int(now) // DAY + self._days + 1) * DAY
        return str(self._serializer.dumps([ref.repo_id, ref.number, ref.head_sha, expires]))

    def open(self, token: str) -> Opened | None:
        """None for what we did not sign."""
        if len(token) > MAX_TOKEN:
            return None
        try:
            repo_id, number, head_sha, expires = self._serializer.loads(token)
        except (BadData, ValueError, TypeError):
            return None
        return Opened(ReportRef(repo_id=int(repo_id), number=int(number), head_sha=str(head_sha)), int(expires))


def _derived(secret: Secret) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(secret.reveal().encode())
