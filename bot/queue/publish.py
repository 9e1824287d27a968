"""A plan made true on GitHub: look, then write; conclude last, so that a crash leaves work visible to the sweeper."""

from __future__ import annotations

import re
from collections.abc import Callable

from bot.core.external_id import external_id
from bot.core.plan import Plan
from bot.github.gateway import Gateway
from bot.queue.records import Record
from bot.render.summary import SUMMARY_MARKER

_NOTHING_LEFT = "Preflight has nothing to say about this pull request any more."
_FINGERPRINT = re.compile(r"<!-- preflight:fingerprint=([^ ]+) -->")


class Superseded(Exception):
    """A newer push, or the pull request was closed: stop quietly."""


def posted_fingerprints(gateway: Gateway, number: int) -> frozenset[str]:
    """What our own comments on the pull request already say."""
    bodies = (comment.body for comment in gateway.conversation.own_review_comments(number))
    return frozenset(found for body in bodies for found in _FINGERPRINT.findall(body))


def publish(
    plan: Plan, record: Record, gateway: Gateway, is_superseded: Callable[[], bool], there: frozenset[str]
) -> int:
    """Review, summary, checks, in this order. Returns the number of comments posted. Raises `Superseded`.

    Everything may be done twice: what is there already is not written again. `there` are the fingerprints that were on
    the pull request when this job read it; only the publisher writes there, and a lost answer is looked for.
    """

    def still_wanted() -> None:
        if is_superseded():
            raise Superseded

    with gateway.publishing():
        still_wanted()
        pull = gateway.pull(record.number)
        if pull.head_sha != plan.head_sha or not pull.is_open:
            raise Superseded
        posted = 0
        if plan.comments:
            fresh = [comment for comment in plan.comments if comment.fingerprint not in there]
            still_wanted()
            if fresh:
                posted = gateway.conversation.review(record.number, plan.head_sha, plan.review_body, fresh)
        if plan.summary is not None:
            still_wanted()
            gateway.conversation.upsert(record.number, SUMMARY_MARKER, plan.summary)
        elif there:
            still_wanted()
            gateway.conversation.edit_existing(record.number, SUMMARY_MARKER, _NOTHING_LEFT)
        for check in plan.checks:
            still_wanted()
            identifier = external_id(record.repo_id, record.number, record.head_sha, record.generation, check.state)
            gateway.checks.conclude(
                record.runs[check.name], identifier, check, look_first=record.tries + record.waits > 0
            )
    return posted
