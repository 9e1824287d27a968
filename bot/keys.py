"""Keys derived from the app's private key, one for each purpose: the key itself signs nothing but JWTs."""

from __future__ import annotations

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from bot.settings import Secret

TOKENS = b"preflight installation token"
LEDGER = b"preflight ledger"


def derived(private_key: Secret, purpose: bytes) -> bytes:
    """32 bytes that only holders of the private key can compute, different for each `purpose`."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(private_key.reveal().encode())
