"""The ledger as a hidden HTML comment, signed: people with write access can edit a bot's comment.

``<!-- preflight:ledger=1:PAYLOAD:MAC -->``: PAYLOAD is zlib-compressed JSON in base64 (no ``-`` can end the comment),
MAC an HMAC-SHA256 over version, repository, number and payload. So a ledger is good for one pull request only. One
that does not verify is not read at all: its decisions do not hold and a person is told.

An older ledger of the same pull request, pasted back, does verify. It can hold nothing but what somebody was allowed
to decide there: overrides name their commit.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from bot.core.ledger import Ledger, Posted
from bot.core.ledger_json import ledger_from_json, ledger_to_json

T = TypeVar("T")
MAX_SEALED = 20_000
"""Characters of the hidden comment; the visible part of a summary gets the rest of GitHub's 65,536."""
_VERSION = "1"
_MAX_JSON = 4 << 20
_SEAL = re.compile(r"<!-- preflight:ledger=(\d{1,3}):([A-Za-z0-9+/=]*):([0-9a-f]*) -->")
_MENTION = "preflight:ledger="


@dataclass(frozen=True, slots=True)
class Opened:
    """What a comment's ledger says; `problem` is why it was not trusted (empty: it was, or there is none)."""

    ledger: Ledger
    problem: str = ""


def seal(ledger: Ledger, repo_id: int, number: int, key: bytes) -> str:
    """The hidden comment. What is too much is left out: see `fitting`."""
    return _sealed(fitting(ledger), repo_id, number, key)


def unseal(body: str, repo_id: int, number: int, keys: Sequence[bytes]) -> Opened:
    """The ledger in a comment of ours, if one of `keys` signed it (the current one and, after a rotation, the last)."""
    found = list(_SEAL.finditer(body))
    if not found:
        return Opened(Ledger(), "the record in the summary was damaged" if _MENTION in body else "")
    version, payload, mac = found[-1].groups()
    if not any(hmac.compare_digest(mac, _mac(version, payload, repo_id, number, key)) for key in keys):
        return Opened(Ledger(), "the record in the summary was not written by this Preflight")
    if version != _VERSION:
        return Opened(Ledger(), f"the record in the summary has version {version}, which this Preflight does not read")
    try:
        return Opened(ledger_from_json(json.loads(_inflated(payload))))
    except (ValueError, TypeError, RecursionError, zlib.error) as error:  # signed and yet unreadable: a bug of ours
        return Opened(Ledger(), f"the record in the summary cannot be read ({type(error).__name__})")


def without_seal(body: str) -> str:
    """The visible part of a summary."""
    return _SEAL.sub("", body).rstrip()


def fitting(ledger: Ledger) -> Ledger:
    """As much of the ledger as fits into `MAX_SEALED`.

    First to go are fixed findings, oldest first; then open ones that are only in the summary or an annotation; then
    the oldest commented ones (their comments carry their fingerprints too). Decisions go last: see `has_room`.
    """
    order = sorted(range(len(ledger.posted)), key=lambda place: (_WORTH[_kind(ledger.posted[place])], place))
    return replace(
        ledger,
        posted=_most(
            order,
            lambda gone: _is_small(replace(ledger, posted=_without(ledger.posted, gone))),
            lambda gone: _without(ledger.posted, gone),
        ),
    )


def has_room(ledger: Ledger) -> bool:
    """Whether the decisions alone fit. A command that would make them too many is refused."""
    return _is_small(replace(ledger, posted=()))


_WORTH = {"fixed": 0, "said elsewhere": 1, "commented": 2, "dismissed": 3}


def _kind(item: Posted) -> str:
    if item.status == "open":
        return "commented" if item.where == "comment" else "said elsewhere"
    return item.status


def _most(order: Sequence[int], fits: Callable[[frozenset[int]], bool], keep: Callable[[frozenset[int]], T]) -> T:
    """What is left after the smallest number of removals, in `order`, that fits (all of them where none does)."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if fits(frozenset(order[:middle])):
            high = middle
        else:
            low = middle + 1
    while low < len(order) and not fits(frozenset(order[:low])):  # a shorter text can compress worse
        low += 1
    return keep(frozenset(order[:low]))


def _without(items: tuple[Posted, ...], gone: frozenset[int]) -> tuple[Posted, ...]:
    return tuple(item for place, item in enumerate(items) if place not in gone)


def _is_small(ledger: Ledger) -> bool:
    return len(_sealed(ledger, 0, 0, b"")) + 2 * 20 <= MAX_SEALED


def _sealed(ledger: Ledger, repo_id: int, number: int, key: bytes) -> str:
    text = json.dumps(ledger_to_json(ledger), sort_keys=True, separators=(",", ":"))
    payload = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return f"<!-- preflight:ledger={_VERSION}:{payload}:{_mac(_VERSION, payload, repo_id, number, key)} -->"


def _mac(version: str, payload: str, repo_id: int, number: int, key: bytes) -> str:
    return hmac.new(key, f"{version}:{repo_id}:{number}:{payload}".encode(), hashlib.sha256).hexdigest()


def _inflated(payload: str) -> bytes:
    inflater = zlib.decompressobj()
    text = inflater.decompress(base64.b64decode(payload), _MAX_JSON)
    if inflater.unconsumed_tail:
        raise ValueError("too long")
    return text
