"""How a review ends without a plan: superseded, closed, or failed. Every path of a job leads to a conclusion."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from bot.core.buttons import RERUN
from bot.core.external_id import external_id
from bot.core.plan import CHECK_NAMES, CheckOutcome, Conclusion, State
from bot.github.errors import Gone
from bot.github.gateway import Gateway
from bot.queue.failures import FINAL, persistently
from bot.queue.records import Record
from bot.queue.replying import reply_with_ending
from bot.queue.room import Room
from bot.store import GENERATION_TTL

CANCELLED = "cancelled"
SKIPPED = "skipped"
FAILED = "failed"
DRAFT = "Draft: Preflight reviews when it is ready"
_CONCLUSIONS: dict[str, Conclusion] = {CANCELLED: "cancelled", SKIPPED: "skipped", FAILED: "neutral"}


def ending(kind: str, why: str) -> str:
    """What a record keeps until its check runs are concluded."""
    return f"{kind}:{why}"


def remember_wish(room: Room, repo_id: int, on_failure: str) -> None:
    """Keep what the configuration wants of a failure of ours: when one comes, it may be too late to read it."""
    key = room.keys.on_failure(repo_id)
    if on_failure == "failure":
        room.client.set(key, "1", ex=GENERATION_TTL)
    else:
        room.client.delete(key)


def end(room: Room, gateway: Gateway, record: Record) -> None:
    """Conclude the check runs of `record` with its ending and forget it. `Unavailable` leaves it open."""
    kind, _, why = record.ending.partition(":")
    conclusion: Conclusion = _CONCLUSIONS[kind]
    if kind == FAILED and room.client.exists(room.keys.on_failure(record.repo_id)):
        conclusion = "failure"
    state: State = "failed" if kind == FAILED else "skipped"
    title = "Preflight failed" if kind == FAILED else why
    summary = f"{why}\n\nThis says nothing about the code. Press *Re-run* to try again." if kind == FAILED else why
    identifier = external_id(record.repo_id, record.number, record.head_sha, record.generation)
    with gateway.publishing(), suppress(Gone):
        for name, run_id in _runs(gateway, record, identifier).items():
            outcome = CheckOutcome(
                name=next(known for known in CHECK_NAMES if known == name),
                conclusion=conclusion,
                state=state,
                title=title,
                summary=summary,
                actions=(RERUN,) if kind == FAILED else (),
            )
            conclude = partial(gateway.checks.conclude, run_id, identifier + state, outcome)
            with suppress(*FINAL):
                persistently(conclude)
        reply_with_ending(gateway, record, why)
    room.records.drop(record.name)


def _runs(gateway: Gateway, record: Record, identifier: str) -> dict[str, int]:
    """The run ids; a job may have died between creating one and noting it."""
    if set(record.runs) >= set(record.checks):
        return record.runs
    try:
        found = persistently(lambda: gateway.checks.on_commit(record.head_sha))
    except FINAL:
        return record.runs
    ours: dict[str, int] = {
        run.name: run.id for run in found if run.external_id == identifier and run.name in record.checks
    }
    return ours | record.runs
