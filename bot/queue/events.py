"""What the events other than a push ask for: a closed pull request, a re-run, a merge queue, a changed installation."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from bot import intents
from bot.core.external_id import external_id, parse_external_id
from bot.core.plan import CHECK_NAMES, MEMORY_CHECK, State
from bot.errors import InputError
from bot.github.auth import AppCredentials
from bot.github.checks import CheckRun
from bot.github.errors import Gone, Refused
from bot.github.gateway import Gateway
from bot.github.pulls import PullInfo
from bot.intents import CheckPush, ClosePull, DropTokens, MergeGroup, Rerun, ReviewPull
from bot.queue.counting import count_closed
from bot.queue.endings import CANCELLED, DRAFT, SKIPPED, end, ending
from bot.queue.logbook import Logbook
from bot.queue.room import Room

_MIRRORED = frozenset({"success", "neutral", "failure", "skipped"})
"""Conclusions that a merge group takes over; a cancelled run says nothing about the code."""


def close(room: Room, document: dict[str, Any], delivery: str, log: Logbook) -> None:
    """Supersede what runs; what is open and has no job any more is concluded here. What is concluded stays.

    What was asked for after this event (reopened or ready within the second) is not touched: events come in any order.
    """
    intent = intents.from_json(document)
    assert isinstance(intent, ClosePull)
    newest = room.claims.generation(intent.repo_id, intent.number)
    gateway = room.gateway(intent.installation_id, intent.repo_id, intent.full_name)
    pull = _pull(gateway, intent.number)
    if pull is not None and pull.is_open and not (intent.to_draft and pull.is_draft):
        log.note(reopened=True)
        return
    how = ending(SKIPPED, DRAFT) if intent.to_draft else ending(CANCELLED, "The pull request is closed")
    found = (room.records.load(name) for name in room.records.of_pull(intent.repo_id, intent.number))
    records = [replace(record, ending=how) for record in found if record is not None and record.generation <= newest]
    if intent.to_draft and any(record.answer_key for record in records):
        log.note(outcome="somebody asked for a review of this draft")
        return
    for record in records:  # before its job learns that it is superseded: it ends as the record says
        room.records.save(record, time.time() + room.settings.times.sweep)
    if room.claims.generation(intent.repo_id, intent.number) == newest:
        room.claims.next_generation(intent.repo_id, intent.number)
    for record in records:
        end(room, room.gateway_of(record), record)
    counted = count_closed(room, gateway, intent, pull) if pull is not None and not intent.to_draft else 0
    log.note(concluded=len(records), counted=counted)


def _pull(gateway: Gateway, number: int) -> PullInfo | None:
    try:
        return gateway.pull(number)
    except (Refused, Gone):
        return None


def rerun(room: Room, document: dict[str, Any], delivery: str, log: Logbook) -> None:
    """A new generation. GitHub resets only the suite: the runs are ours to renew."""
    intent = intents.from_json(document)
    assert isinstance(intent, Rerun)
    gateway = room.gateway(intent.installation_id, intent.repo_id, intent.full_name)
    numbers = _pulls_of(gateway, intent)
    for number in numbers:
        review = ReviewPull.of(intent, number, intent.head_sha, "re-run")
        room.enqueuer.new_review(review, delivery)
    if intent.queued and not numbers:
        _report_on_group(gateway, intent.repo_id, intent.head_sha, intent.queued)
    log.note(pulls=numbers, group=intent.queued, branch=_renew_branch(room, gateway, intent, delivery))


def _renew_branch(room: Room, gateway: Gateway, intent: Rerun, delivery: str) -> bool:
    """A check of ours on a commit of the default branch: it belongs to no pull request."""
    known = [parse_external_id(intent.external_id)]
    if intent.check_run_id is None:
        known = [parse_external_id(run.external_id) for run in gateway.checks.on_commit(intent.head_sha, MEMORY_CHECK)]
    if not any(item and item.repo_id == intent.repo_id and item.is_of_branch for item in known):
        return False
    push = CheckPush.of(intent, intent.head_sha)
    room.enqueuer.new_review(push, delivery)
    return True


def _pulls_of(gateway: Gateway, intent: Rerun) -> list[int]:
    """From our external id; a suite has none, and events of forks name no pull request."""
    known = parse_external_id(intent.external_id)
    if known is None and intent.check_run_id is None:
        runs = gateway.checks.on_commit(intent.head_sha)
        known = next((found for run in runs if (found := parse_external_id(run.external_id))), None)
    if known is not None and known.repo_id == intent.repo_id and known.number > 0:
        return [known.number]
    if known is not None and known.repo_id == intent.repo_id and known.is_of_branch and intent.check_run_id:
        return []
    return gateway.open_pulls_with_head(intent.head_sha)


def mirror(room: Room, document: dict[str, Any], delivery: str, log: Logbook) -> None:
    """A merge queue ejects pull requests whose required checks do not report on the group's head."""
    intent = intents.from_json(document)
    assert isinstance(intent, MergeGroup)
    gateway = room.gateway(intent.installation_id, intent.repo_id, intent.full_name)
    _report_on_group(gateway, intent.repo_id, intent.head_sha, intent.queued)
    log.note(pull=intent.queued)


def _report_on_group(gateway: Gateway, repo_id: int, sha: str, number: int) -> None:
    """What the pull request's own head got; a review of the group's own diff is not made.

    Where a check is required it passed before the queue took the pull request. Where it is not, what failed there
    fails here: this commit becomes the branch, and the submission gate reads its check.
    """
    found = _newest(gateway, repo_id, number) if number else {}
    with gateway.publishing():
        for name in CHECK_NAMES:
            run = found.get(name)
            known = parse_external_id(run.external_id) if run else None
            state: State = known.state if known and known.state else "unknown"
            conclusion = run.conclusion if run and run.conclusion in _MIRRORED else "neutral"
            title = run.title if run else "The pull request has no result"
            where = f"pull request {number}" if number else "a pull request"
            summary = f"As on {where}, whose own head was reviewed before it entered the queue."
            identifier = external_id(repo_id, 0, sha, 0, state)
            gateway.checks.completed(name, sha, identifier, conclusion, title, summary)


def _newest(gateway: Gateway, repo_id: int, number: int) -> dict[str, CheckRun]:
    """The newest concluded run of each check of ours on the head of a pull request."""
    runs = gateway.checks.on_commit(gateway.pull(number).head_sha)
    ours = ((run, parse_external_id(run.external_id)) for run in reversed(runs) if run.status == "completed")
    return {run.name: run for run, known in ours if known and (known.repo_id, known.number) == (repo_id, number)}


def drop(room: Room, document: dict[str, Any], delivery: str, log: Logbook) -> None:
    """Cached tokens may have the wrong scope."""
    intent = intents.from_json(document)
    if not isinstance(intent, DropTokens):
        raise InputError("not a change of an installation")
    AppCredentials(room.settings, room.client, room.keys).drop(intent.installation_id)
