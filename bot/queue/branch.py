"""The memory check of a commit of the default branch: read, estimate, conclude. There is no review."""

from __future__ import annotations

from bot.core.external_id import external_id
from bot.github.gateway import Gateway
from bot.queue.logbook import Logbook
from bot.queue.records import Record
from bot.queue.room import Room
from bot.workshop.parent import branch_in_child


def check_commit(room: Room, gateway: Gateway, record: Record, log: Logbook) -> None:
    """Everything may be done twice: the run is concluded again with the same answer. No later push supersedes it,
    because jobs are submitted from older commits too."""
    from bot.sources.github import read_commit  # brings the analyzer in: only where it is needed

    with log.stage("read"):
        given = read_commit(gateway, record, web_url=room.settings.web_url)
    with log.stage("analyse"):
        plan = branch_in_child(given, room.limits)
    with log.stage("publish"), gateway.publishing():
        for check in plan.checks:
            identifier = external_id(record.repo_id, 0, record.head_sha, record.generation, check.state)
            gateway.checks.conclude(
                record.runs[check.name], identifier, check, look_first=record.tries + record.waits > 0
            )
    log.note(checks=",".join(check.conclusion for check in plan.checks))
    room.records.drop(record.name)
