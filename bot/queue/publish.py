"""A plan made true on GitHub: look, then write; conclude last, so that a crash leaves work visible to the sweeper."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from bot.core.external_id import external_id
from bot.core.ledger import published
from bot.core.lifecycle import thread_changes
from bot.core.plan import Plan
from bot.github.errors import Refused
from bot.github.gateway import Gateway
from bot.queue.memory import Memory, recall, write_summary
from bot.queue.records import Record
from bot.render.summary import all_clear

_log = logging.getLogger("preflight.jobs")


class Superseded(Exception):
    """A newer push, or the pull request was closed: stop quietly."""


class Watch:
    """Whether a review is still wanted. `is_superseded` asks Redis each time."""

    def __init__(self, is_superseded: Callable[[], bool]) -> None:
        self._is_superseded = is_superseded

    def still_wanted(self) -> None:
        """Raises `Superseded`."""
        if self._is_superseded():
            raise Superseded


def publish(plan: Plan, record: Record, gateway: Gateway, watch: Watch) -> int:
    """Review, threads, summary, checks, in this order. Returns the number of comments posted. Raises `Superseded`.

    Everything may be done twice: what is there already is not written again. What is there is read here, under the
    publisher's lease, without which nobody of ours writes.
    """
    with gateway.publishing():
        watch.still_wanted()
        pull, memory = recall(gateway, record.number)
        if pull.head_sha != plan.head_sha or not pull.is_open:
            raise Superseded
        posted = _review(plan, record, gateway, watch, memory)
        if plan.posted is not None:
            ledger = published(memory.ledger, plan.posted, plan.head_sha)
            _say(plan, record, gateway, watch, replace(memory, ledger=ledger))
        for check in plan.checks:
            watch.still_wanted()
            identifier = external_id(record.repo_id, record.number, record.head_sha, record.generation, check.state)
            gateway.checks.conclude(
                record.runs[check.name], identifier, check, look_first=record.tries + record.waits > 0
            )
    return posted


def _review(plan: Plan, record: Record, gateway: Gateway, watch: Watch, memory: Memory) -> int:
    fresh = [comment for comment in plan.comments if comment.fingerprint not in memory.ledger.commented]
    if not fresh:
        return 0
    watch.still_wanted()
    return gateway.conversation.review(record.number, plan.head_sha, plan.review_body, fresh)


def _say(plan: Plan, record: Record, gateway: Gateway, watch: Watch, memory: Memory) -> None:
    """Threads and summary as the ledger now has it."""
    changes = thread_changes(memory.talk.threads, memory.ledger)
    if changes:
        watch.still_wanted()
        try:
            gateway.talks.change(changes, gateway.contents_writer)
        except Refused as error:  # a thread that stays open is no reason to leave a check hanging
            _log.warning("review=%s: threads were not changed: %s", record.name, error)
    text = plan.summary
    if text is None and memory.talk.summary is not None:
        text = all_clear(plan.head_sha)
    if text is not None:
        watch.still_wanted()
        write_summary(gateway, record.number, text, memory.ledger, memory)
