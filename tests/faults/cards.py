"""Every fault the suite knows, one card each: which step of a review it strikes, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bot.localhub.faults import Fault

STEPS = {
    "token": ("POST", r"^/app/installations/{installation}/access_tokens$"),
    "start check": ("POST", r"^{repo}/check-runs$"),
    "read pull": ("GET", r"^{repo}/pulls/\d+$"),
    "read files": ("GET", r"^{repo}/compare/"),
    "read tree": ("GET", r"^{repo}/git/trees/"),
    "query": ("POST", r"^/graphql$"),
    "read conversation": ("GET", r"^{repo}/issues/\d+/comments$"),
    "post review": ("POST", r"^{repo}/pulls/\d+/reviews$"),
    "post comment": ("POST", r"^{repo}/issues/\d+/comments$"),
    "edit comment": ("PATCH", r"^{repo}/issues/comments/\d+$"),
    "conclude check": ("PATCH", r"^{repo}/check-runs/\d+$"),
    "find checks": ("GET", r"^{repo}/commits/[0-9a-f]+/check-runs$"),
}
"""The requests of a review, by what they are for. ``{repo}`` matches every name the repository ever had."""
_WRITES = {name for name, (method, _) in STEPS.items() if method != "GET" and name not in {"token", "query"}}
_SECONDARY = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
ANSWERS: dict[str, dict[str, Any]] = {
    "401": {"status": 401, "body": {"message": "Bad credentials"}},
    "403": {"status": 403, "body": {"message": "Resource not accessible by integration"}},
    "404": {"status": 404, "body": {"message": "Not Found"}},
    "409": {"status": 409, "body": {"message": "Conflict"}},
    "422": {"status": 422, "body": {"message": "Validation Failed"}},
    "429 with Retry-After": {"status": 429, "body": _SECONDARY, "headers": {"Retry-After": "1"}},
    "secondary limit with Retry-After": {"status": 403, "body": _SECONDARY, "headers": {"Retry-After": "2"}},
    "secondary limit without Retry-After": {"status": 403, "body": _SECONDARY},
    "429 without Retry-After": {"status": 429, "body": _SECONDARY},
    "500": {"status": 500},
    "502 three times": {"status": 502, "count": 3},
    "503 six times": {"status": 503, "count": 6},
}
REFUSALS = frozenset({"401", "403", "404", "409", "422"})
"""Answers that trying again does not change: a check may say that the review failed."""
VICTIMS = ("horse", "worker and horse", "supervisor", "redis", "web")
WORLD = {
    "force-push": ("read files", "read tree", "start check", "post review", "conclude check"),
    "branch deleted": ("read files", "post review", "conclude check"),
    "repository renamed": ("read pull", "start check", "query", "post review", "post comment", "conclude check"),
    "tokens expire": ("read files", "start check", "post review", "post comment", "conclude check"),
    "closed": ("start check", "read files", "post review", "conclude check"),
}
"""What people and time do between two requests of a review, and before which of them."""
DELIVERIES = ("lose", "fail", "late", "twice")


@dataclass(frozen=True, slots=True)
class Card:
    """`kind` is answer, kill, world or delivery; `what` names it; `when` before or after the request of `step`."""

    kind: str
    what: str
    step: str = ""
    when: str = "before"

    def __str__(self) -> str:
        place = f" {self.when} {self.step}" if self.step else ""
        return f"{self.kind}: {self.what}{place}"

    def fault(self, places: dict[str, str], act: Callable[[str, int], object]) -> Fault:
        """The fault to arm at the hub; `act(what, port)` is called for kills and for what the world does."""
        method, pattern = STEPS[self.step]
        for name, value in places.items():
            pattern = pattern.replace("{" + name + "}", value)
        is_after = self.when == "after"
        if self.kind in {"kill", "world"}:
            what = self.what
            return Fault(
                kind="call", method=method, path=pattern, perform=is_after, action=lambda port: act(what, port)
            )
        if self.what == "answer lost":
            return Fault(kind="lose", method=method, path=pattern)
        if self.what == "answer after the client's time-out":
            return Fault(kind="late", method=method, path=pattern, seconds=21.0)
        if self.what == "slow":
            return Fault(kind="delay", method=method, path=pattern, seconds=3.0)
        return Fault(kind="status", method=method, path=pattern, perform=is_after, **ANSWERS[self.what])


def deck() -> list[Card]:
    """Every card once, in a fixed order."""
    return [*_answers(), *_lost_answers(), *_kills(), *_world()]


def _answers() -> Iterator[Card]:
    for step in STEPS:
        for what in [*ANSWERS, "slow"]:
            yield Card("answer", what, step)


def _lost_answers() -> Iterator[Card]:
    """The write was done, and the client does not hear of it."""
    for step in sorted(_WRITES):
        yield Card("answer", "500", step, "after")
        yield Card("answer", "502 three times", step, "after")
        yield Card("answer", "answer lost", step)
    for step in ("post review", "start check", "post comment", "conclude check"):
        yield Card("answer", "answer after the client's time-out", step)


def _kills() -> Iterator[Card]:
    for step in STEPS:
        for victim in VICTIMS:
            for when in ("before", "after"):
                yield Card("kill", victim, step, when)


def _world() -> Iterator[Card]:
    for what, steps in WORLD.items():
        for step in steps:
            yield Card("world", what, step)
    for fate in DELIVERIES:
        for _ in range(12):
            yield Card("delivery", fate)
