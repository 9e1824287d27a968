"""The job functions: the order of the rooms, and the one boundary at which an error becomes something a person sees.

``InputError`` is said in the check or answer; ``Unavailable`` puts the job off; anything else is a bug of ours: the
check says so (neutral) and the delivery may be redelivered. Each function takes ids and looks everything else up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import redis
from rq import get_current_job

from bot.core.external_id import external_id
from bot.core.plan import Plan
from bot.errors import InputError, PreflightError, Unavailable
from bot.github.errors import Invalid, NotFound
from bot.github.gateway import Gateway
from bot.intents import ReviewPull
from bot.queue.branch import check_commit
from bot.queue.endings import CANCELLED, FAILED, end, ending, remember_wish
from bot.queue.failures import LAG_SECONDS, LAG_WAITS, MAX_WAITS, delay, passing, reason
from bot.queue.known_reports import KnownReports, fork_of
from bot.queue.lease import Lease
from bot.queue.logbook import Logbook
from bot.queue.memory import recall
from bot.queue.publish import Superseded, Watch, publish
from bot.queue.records import Record
from bot.queue.replying import reply_with_plan
from bot.queue.room import Room, heartbeat, open_room
from bot.workshop.parent import review_in_child

_log = logging.getLogger("preflight.jobs")


def open_review(name: str) -> None:
    """Create both check runs at once, then hand over: people see that something happens."""
    _for_review(name, "open_review", _open)


def review_pull(name: str) -> None:
    """Read, analyse, publish."""
    _for_review(name, "review_pull", _review)


def close_pull(document: dict[str, Any], delivery: str, attempt: int = 0) -> None:
    """A pull request was closed."""
    from bot.queue.events import close

    _for_event("close_pull", close, document, delivery, attempt)


def rerun(document: dict[str, Any], delivery: str, attempt: int = 0) -> None:
    """Somebody pressed *Re-run*."""
    from bot.queue.events import rerun as handle

    _for_event("rerun", handle, document, delivery, attempt)


def answer_command(document: dict[str, Any], delivery: str, attempt: int = 0) -> None:
    """Answer a slash command that looks at the pull request's code."""
    from bot.queue.command import answer_later

    _for_event("answer_command", answer_later, document, delivery, attempt)


def press_button(document: dict[str, Any], delivery: str, attempt: int = 0) -> None:
    """Somebody pressed a button of ours on a check run."""
    from bot.queue.button import press

    _for_event("press_button", press, document, delivery, attempt)


def merge_group(document: dict[str, Any], delivery: str, attempt: int = 0) -> None:
    """A merge queue waits for our checks."""
    from bot.queue.events import mirror

    _for_event("merge_group", mirror, document, delivery, attempt)


def drop_tokens(document: dict[str, Any], delivery: str, attempt: int = 0) -> None:
    """An installation changed."""
    from bot.queue.events import drop

    _for_event("drop_tokens", drop, document, delivery, attempt)


def run_command(document: dict[str, Any], delivery: str, attempt: int = 0) -> None:
    """Answer a slash command."""
    from bot.queue.command import run

    _for_event("run_command", run, document, delivery, attempt)


def _open(room: Room, gateway: Gateway, record: Record, log: Logbook) -> None:
    try:
        runs = _start_runs(room, gateway, record)
    except (Invalid, NotFound) as error:
        if record.waits >= LAG_WAITS:
            raise InputError(f"GitHub does not know the commit {record.head_sha}: {error}") from None
        raise Unavailable("the commit is not visible yet", LAG_SECONDS) from None
    started = replace(record, runs=runs)
    room.records.save(started, time.time() + room.settings.times.orphan_after)
    log.note(queued=room.enqueuer.review_pull(started))


def _start_runs(room: Room, gateway: Gateway, record: Record) -> dict[str, int]:
    identifier = external_id(record.repo_id, record.number, record.head_sha, record.generation)
    runs: dict[str, int] = dict(record.runs)
    with gateway.publishing():
        for check in record.checks:
            if check not in runs:
                look_first = record.tries + record.waits > 0
                run = gateway.checks.start(check, record.head_sha, identifier, "Reviewing…", look_first=look_first)
                runs[check] = run.id
                room.records.add_run(record.name, check, run.id)
    return runs


def _review(room: Room, gateway: Gateway, record: Record, log: Logbook) -> None:
    from bot.sources.github import read_pull  # brings the analyzer in: only where it is needed

    if not record.number:
        if not record.runs:
            record = replace(record, runs=_start_runs(room, gateway, record))
        check_commit(room, gateway, record, log)
        return
    pull, memory = recall(gateway, record.number)
    if not pull.is_open:
        _conclude(room, gateway, record, ending(CANCELLED, "The pull request is closed"))
        return
    if record.answer_key:
        pull = replace(pull, is_draft=False)  # somebody asked: a draft is reviewed as if it were ready
    if pull.head_sha != record.head_sha:
        _other_head(room, gateway, record, pull.head_sha)
        return
    with log.stage("read"):
        given = read_pull(gateway, pull, repo_id=record.repo_id, generation=record.generation, ledger=memory.ledger)
    if not given.snapshot.is_draft:  # a draft's configuration is not read
        remember_wish(room, record.repo_id, given.config.on_failure)
    with log.stage("analyse"):
        known = KnownReports(room.client, room.keys, record.repo_id, fork_of(pull))
        plan = review_in_child(given, room.limits, known)
    room.desk.put(record, plan.details)
    if set(record.runs) < set(record.checks):
        record = replace(record, runs=_start_runs(room, gateway, record))
    with log.stage("publish"):
        comments = publish(plan, record, gateway, Watch(lambda: room.is_superseded(record)))
    log.note(comments=comments, checks=",".join(check.conclusion for check in plan.checks))
    _count_plan(room, plan)
    reply_with_plan(gateway, record, plan, comments)
    room.records.drop(record.name)


def _count_plan(room: Room, plan: Plan) -> None:
    for check in plan.checks:
        room.meter.count("preflight_checks", check=check.name, conclusion=check.conclusion)
    for item in plan.posted or ():
        if item.head_sha == plan.head_sha:  # said for the first time
            room.meter.count("preflight_findings", rule=item.rule, severity=item.severity)


def _other_head(room: Room, gateway: Gateway, record: Record, head: str) -> None:
    """The event is ahead of the API (wait), or older than the head (events come in any order: review the head)."""
    if record.waits < LAG_WAITS:
        raise Unavailable("GitHub shows another head than the webhook", LAG_SECONDS)
    intent = ReviewPull.of(record, record.number, head, "newer head")
    if not room.is_superseded(record):
        room.enqueuer.new_review(intent, record.delivery)
    _conclude(room, gateway, record, ending(CANCELLED, "Superseded by a newer push"))


# --- the boundary ---------------------------------------------------------------------------------------------------

Stage = Callable[[Room, Gateway, Record, Logbook], None]


def _for_review(name: str, job: str, stage: Stage) -> None:
    room = open_room()
    record = room.records.load(name)
    with Logbook(job, room.meter, review=name, **_ids(record)) as log:
        if record is None:
            log.note(outcome="nothing to do")  # concluded already: a job may run twice
            return
        gateway = room.gateway_of(record)
        turn = Lease(room.client, room.keys.running(name, job))
        if not turn.hold(room.settings.times.orphan_after):
            log.note(outcome="runs already")  # queued twice; where the other died, the sweeper finds the review
            return
        try:
            with heartbeat(room, name, turn):
                log.note(outcome=_guarded(room, gateway, record, log, stage))
        finally:
            log.note(calls=gateway.calls)
            with suppress(redis.RedisError):
                turn.release()


def _ids(record: Record | None) -> dict[str, object]:
    """What every line of a review's job names."""
    if record is None:
        return {"job_id": _job_id()}
    pull = f"{record.full_name}#{record.number}"
    return {"delivery": record.delivery, "pull": pull, "installation": record.installation_id, "job_id": _job_id()}


def _job_id() -> str:
    job = get_current_job()
    return str(job.id) if job is not None else ""


def _guarded(room: Room, gateway: Gateway, record: Record, log: Logbook, stage: Stage) -> str:
    try:
        if room.is_superseded(record):
            raise Superseded
        stage(room, gateway, record, log)
        return "done"
    except Superseded:
        latest = room.records.load(record.name)
        if latest is not None:  # else who superseded it has concluded it too
            _conclude(room, gateway, latest, latest.ending or ending(CANCELLED, "Superseded by a newer push"))
        return "superseded"
    except Exception as error:  # noqa: BLE001  the boundary of jobs: a bug is said on the check, never swallowed
        soon = passing(error, record.waits)
        if soon is not None:
            return _put_off(room, gateway, _latest(room, record), stage, soon)
        why = reason(room, record, error)
    _conclude(room, gateway, _latest(room, record), ending(FAILED, why))
    return f"failed: {why}"


def _latest(room: Room, record: Record) -> Record:
    """The record with the check runs noted while the job ran."""
    return room.records.load(record.name) or record


def _conclude(room: Room, gateway: Gateway, record: Record, how: str) -> None:
    """End the review; where GitHub does not answer, the sweeper goes on trying."""
    ended = replace(record, ending=how)
    room.records.save(ended, time.time() + room.settings.times.sweep)
    try:
        end(room, gateway, ended)
    except PreflightError as error:
        _log.warning("review=%s not concluded yet: %s", record.name, error)


def _put_off(room: Room, gateway: Gateway, record: Record, stage: Stage, error: Unavailable) -> str:
    if record.waits >= MAX_WAITS:
        room.meter.count("preflight_failures", kind="gave up")
        _conclude(room, gateway, record, ending(FAILED, f"Gave up after {record.waits} attempts: {error}"))
        return f"gave up: {error}"
    seconds = delay(error, record.waits)
    later = replace(record, waits=record.waits + 1)
    room.records.save(later, time.time() + seconds + room.settings.times.orphan_after)
    if stage is _open:
        room.enqueuer.open_review(later, seconds)
    else:
        room.enqueuer.review_pull(later, seconds)
    return f"put off {seconds:.0f} s: {error}"


EventStage = Callable[[Room, dict[str, Any], str, Logbook], None]


def _for_event(job: str, stage: EventStage, document: dict[str, Any], delivery: str, attempt: int) -> None:
    room = open_room()
    place = {"pull": f"{document.get('full_name')}#{document.get('number', '')}"} if document.get("full_name") else {}
    with Logbook(job, room.meter, delivery=delivery, job_id=_job_id(), **place) as log:
        try:
            stage(room, document, delivery, log)
            log.note(outcome="done")
        except redis.RedisError:
            raise  # rq runs it once more
        except Unavailable as error:
            if attempt >= MAX_WAITS:
                room.claims.release(delivery)
                raise
            seconds = delay(error, attempt)
            room.enqueuer.again(f"{__name__}.{job}", document, delivery, attempt + 1, seconds)
            log.note(outcome=f"put off {seconds:.0f} s: {error}")
        except BaseException:
            room.claims.release(delivery)
            raise
