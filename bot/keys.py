"""Keys derived from the app's private key, one for each purpose: the key itself signs nothing but JWTs."""

from __future__ import annotations

from collections.abc import Iterable

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from bot.settings import Secret

TOKENS = b"preflight installation token"
LEDGER = b"preflight ledger"


def derived(private_key: Secret, purpose: bytes) -> bytes:
    """32 bytes that only holders of the private key can compute, different for each `purpose`."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(private_key.reveal().encode())


def all_derived(private_keys: Iterable[Secret], purpose: bytes) -> tuple[bytes, ...]:
    """The same for each key: sign with the first, verify with any (a key that is being rotated signed before)."""
    return tuple(derived(key, purpose) for key in private_keys)
