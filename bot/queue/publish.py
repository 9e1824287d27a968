"""A plan made true on GitHub: look, then write; conclude last, so that a crash leaves work visible to the sweeper."""

from __future__ import annotations

import re
from collections.abc import Callable

from bot.core.external_id import external_id
from bot.core.plan import Plan
from bot.github.gateway import Gateway, PullInfo
from bot.queue.records import Record
from bot.render.summary import SUMMARY_MARKER, all_clear

_FINGERPRINT = re.compile(r"<!-- preflight:fingerprint=([^ ]+) -->")
"""Where a comment begins: further down it could be the name of somebody's file."""


def _is_first(record: Record) -> bool:
    """Nobody of ours has looked at this pull request: GitHub's own count of comments can be trusted to be no older."""
    return record.generation == 1 and record.tries + record.waits == 0


class Superseded(Exception):
    """A newer push, or the pull request was closed: stop quietly."""


def posted_fingerprints(gateway: Gateway, pull: PullInfo, record: Record) -> frozenset[str]:
    """What our own comments on the pull request already say."""
    if _is_first(record) and pull.num_review_comments == 0:
        return frozenset()
    ours = (_FINGERPRINT.match(comment.body) for comment in gateway.conversation.own_review_comments(pull.number))
    return frozenset(found[1] for found in ours if found)


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
        is_silent = _is_first(record) and pull.num_comments == 0
        if plan.summary is not None:
            still_wanted()
            gateway.conversation.upsert(record.number, SUMMARY_MARKER, plan.summary, is_new=is_silent)
        elif not is_silent:
            still_wanted()
            gateway.conversation.edit_existing(record.number, SUMMARY_MARKER, all_clear(plan.head_sha))
        for check in plan.checks:
            still_wanted()
            identifier = external_id(record.repo_id, record.number, record.head_sha, record.generation, check.state)
            gateway.checks.conclude(
                record.runs[check.name], identifier, check, look_first=record.tries + record.waits > 0
            )
    return posted
