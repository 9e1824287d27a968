"""Who may ask the gate: one entry for each token, in a file that holds only hashes.

```toml
[[token]]
name = "cluster-a"                  # in logs and limits
installation = 12345678             # of the app: what it does not reach, the token does not reach
sha256 = "9f86d0…"                  # of the token; `preflight gate-token` makes both
repositories = [1296269]            # only these (default: all of the installation)
expires = 2027-06-30                # the last day (default: never)
policy = "/etc/preflight/policy.yml"   # of the admission webhook (default: the default branch's)
allow = ["borderline", "unknown"]   # what the admission webhook lets pass (the default)
require_commit = false              # whether every GPU job must name its commit
client = "kube-apiserver"           # common name of a TLS client certificate that stands for the token
```

The file is read again when it changes: to rotate, add the new entry, hand the new token out, drop the old entry.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzer.toml import TomlError, parse_toml
from bot.errors import InputError

_log = logging.getLogger("preflight.gate")
FILE = "PREFLIGHT_GATE_TOKENS_FILE"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[\w.\-]{1,60}")
_MAX_BYTES = 1 << 20
_KNOWN = frozenset(
    {"name", "installation", "sha256", "repositories", "expires", "policy", "allow", "require_commit", "client"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One entry of the file."""

    name: str
    installation_id: int
    sha256: str
    repositories: frozenset[int] = frozenset()
    expires: datetime.date | None = None
    policy: str = ""
    allow: frozenset[str] = frozenset({"borderline", "unknown"})
    require_commit: bool = False
    client: str = ""

    def reaches(self, repo_id: int) -> bool:
        """Whether the entry is for the repository. That the installation has it, GitHub says."""
        return not self.repositories or repo_id in self.repositories


def hashed(token: str) -> str:
    """What the file holds of a token. A token has 256 random bits: there is nothing to stretch."""
    return hashlib.sha256(token.encode()).hexdigest()


class GateTokens:
    """The entries of a file, read again when it changes; what cannot be read lets nobody in."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether there is a file at all."""
        return self._path is not None

    def find(self, secret: str, today: datetime.date) -> Token | None:
        """The entry of a token. Every entry is compared, in constant time each."""
        given = hashed(secret).encode()
        found = None
        for token in self._read():
            if hmac.compare_digest(given, token.sha256.encode()):
                found = token
        return found if found is not None and _is_valid(found, today) else None

    def of_client(self, name: str, today: datetime.date) -> Token | None:
        """The entry of a TLS client whose certificate was verified."""
        found = next((token for token in self._read() if token.client and token.client == name), None)
        return found if found is not None and _is_valid(found, today) else None

    def _read(self) -> tuple[Token, ...]:
        if self._path is None:
            return ()
        with self._lock:
            try:
                status = self._path.stat()
                stamp = (status.st_mtime_ns, status.st_size)
                if stamp != self._stamp:
                    self._tokens = parse(self._path.read_bytes()[:_MAX_BYTES].decode("utf-8", "replace"))
                    self._stamp = stamp
            except (OSError, InputError) as error:
                _log.error("%s: %s", FILE, error)
                self._tokens, self._stamp = (), None
            return self._tokens


def _is_valid(token: Token, today: datetime.date) -> bool:
    return token.expires is None or today <= token.expires


def parse(text: str) -> tuple[Token, ...]:
    """The entries. Raises `InputError` naming the entry: one that is wrong must not be half believed."""
    try:
        document = parse_toml(text)
    except (TomlError, RecursionError) as error:
        raise InputError(f"not TOML: {error}") from None
    entries = document.get("token", [])
    if not isinstance(entries, list) or document.keys() - {"token"}:
        raise InputError("only [[token]] entries are wanted")
    return tuple(_token(number, entry) for number, entry in enumerate(entries, start=1))


def _token(number: int, entry: Any) -> Token:
    def wrong(what: str) -> InputError:
        return InputError(f"[[token]] {number}: {what}")

    if not isinstance(entry, Mapping) or entry.keys() - _KNOWN:
        raise wrong(f"unknown settings {sorted(set(entry) - _KNOWN) if isinstance(entry, Mapping) else ''}")
    name, installation, sha256 = entry.get("name"), entry.get("installation"), entry.get("sha256")
    repositories, expires = entry.get("repositories", []), entry.get("expires")
    allow = entry.get("allow", ["borderline", "unknown"])
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise wrong("name: letters, digits, dots and hyphens")
    if type(installation) is not int or installation <= 0:
        raise wrong("installation: the id of an installation of the app")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise wrong("sha256: 64 hexadecimal digits")
    if not isinstance(repositories, list) or not all(type(item) is int for item in repositories):
        raise wrong("repositories: ids of repositories")
    if isinstance(expires, datetime.datetime) or not isinstance(expires, datetime.date | None):
        raise wrong("expires: a date such as 2027-06-30")
    if not isinstance(allow, list) or not set(allow) <= {"borderline", "unknown"}:
        raise wrong('allow: of "borderline" and "unknown"')
    texts = {key: entry.get(key, "") for key in ("policy", "client")}
    has_texts = all(isinstance(text, str) for text in texts.values())
    if not has_texts or type(entry.get("require_commit", False)) is not bool:
        raise wrong("policy and client are texts, require_commit is true or false")
    return Token(
        name=name,
        installation_id=installation,
        sha256=sha256,
        repositories=frozenset(repositories),
        expires=expires,
        policy=texts["policy"],
        allow=frozenset(allow),
        require_commit=bool(entry.get("require_commit", False)),
        client=texts["client"],
    )
