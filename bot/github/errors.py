"""GitHub's answers by meaning. What is worth trying again is `Unavailable`; what is not is `Refused`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from bot.errors import InputError, PreflightError, Unavailable
from bot.redact import redact

_FIRST_BACKOFF = 60.0  # GitHub: without a header wait at least one minute
_GAVE_UP = (502, 504)
"""What GitHub answers after the 10 s that it gives a request; it may be down as well."""


class Refused(PreflightError):
    """A 4xx that trying again does not change."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"GitHub answered {status}: {redact(message)[:500]}")
        self.status = status
        self.message = message


class BadCredentials(Refused):
    """401: the token ended or was revoked."""


class Forbidden(Refused):
    """403 without a limit behind it: a permission is missing or the installation is suspended."""


class NotFound(Refused):
    """404, 410: not there, or not for us."""


class Invalid(Refused):
    """422: GitHub understood and does not want it."""


class Gone(InputError):
    """The installation does not exist any more: nobody waits for anything of ours there."""


class RateLimited(Unavailable):
    """403 or 429 with a primary or secondary limit behind it. `retry_after` is always set."""


class Conflict(Unavailable):
    """409: something else happens to the same thing right now. Nothing was done."""


class GitHubDown(Unavailable):
    """No connection, a time-out, or 5xx. A write may have been done all the same: look before writing again."""


class TooSlow(GitHubDown):
    """GitHub gave up on this request, or we did: less asked for at once may be answered."""


def message_of(body: str) -> str:
    """GitHub's message with the details of its ``errors`` list."""
    try:
        document = json.loads(body)
    except ValueError:
        return body[:200]
    if not isinstance(document, Mapping):
        return body[:200]
    errors = document.get("errors") or []
    details = [_detail(error) for error in errors] if isinstance(errors, list) else [str(errors)]
    return ": ".join(filter(None, [str(document.get("message", "")), "; ".join(details)]))


def _detail(error: Any) -> str:
    if isinstance(error, Mapping):
        return str(error.get("message") or " ".join(str(error.get(key, "")) for key in ("resource", "field", "code")))
    return str(error)


def limit_wait(status: int, headers: Mapping[str, Any], message: str) -> float | None:
    """Seconds GitHub wants us to wait; None where the answer is not about a limit."""
    if status not in (403, 429):
        return None
    after = str(headers.get("retry-after", ""))
    if after.isdecimal():
        return float(after)
    if str(headers.get("x-ratelimit-remaining")) == "0":
        reset = str(headers.get("x-ratelimit-reset", ""))
        return max(1.0, float(reset) - time.time()) if reset.isdecimal() else _FIRST_BACKOFF
    said = message.lower()
    if status == 429 or "rate limit" in said or "abuse" in said or "wait a few minutes" in said:
        return _FIRST_BACKOFF
    return None


def error_for(status: int, headers: Mapping[str, Any], body: str) -> PreflightError:
    """The exception of an answer that is no success."""
    message = message_of(body)
    wait = limit_wait(status, headers, message)
    if wait is not None:
        return RateLimited(f"GitHub limits this installation: {redact(message)[:200]}", wait)
    if status in _GAVE_UP:
        return TooSlow(f"GitHub answered {status}")
    if status >= 500:
        return GitHubDown(f"GitHub answered {status}")
    if status == 409:
        return Conflict(f"GitHub answered 409: {redact(message)[:200]}")
    kinds = {401: BadCredentials, 403: Forbidden, 404: NotFound, 410: NotFound, 422: Invalid}
    return kinds.get(status, Refused)(status, message)
