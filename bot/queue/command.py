"""A slash command: eyes at once, permission from the API, one answer, always."""

from __future__ import annotations

import logging
from typing import Any

import redis

from bot import intents
from bot.core.commands import Command, explain_mistake, parse, who_may
from bot.errors import InputError, Unavailable
from bot.github.errors import Refused
from bot.github.gateway import Gateway, PullInfo
from bot.intents import RunCommand
from bot.queue.logbook import Logbook
from bot.queue.room import Room
from bot.store import CLAIM_TTL
from bot.workshop.parent import AnalysisDied, answer_in_child

_log = logging.getLogger("preflight.jobs")


def run(room: Room, document: dict[str, Any], delivery: str, log: Logbook) -> None:
    """Answer one comment. Repeatable: an answer that is there is not written again."""
    intent = intents.from_json(document)
    assert isinstance(intent, RunCommand)
    done = room.keys.answered(intent.comment_id, intent.repo_id)
    if room.client.exists(done):
        return
    gateway = room.gateway(intent.installation_id, intent.repo_id, intent.full_name)
    with gateway.publishing():
        _react(gateway, intent)
    try:
        text = _answer(room, gateway, intent)
    except (Unavailable, redis.RedisError):
        raise
    except (InputError, AnalysisDied) as error:
        text = f"That did not work: {error}"
    except Exception as error:  # noqa: BLE001  a command is always answered; the traceback is in the log
        _log.exception("delivery=%s command failed", delivery)
        text = f"Preflight failed on this command: a bug of ours ({type(error).__name__})."
    marker = f"<!-- preflight:answer={intent.comment_id} -->"
    with gateway.publishing():
        gateway.conversation.upsert(intent.number, marker, f"{marker}\n{text}")
    room.client.set(done, "1", ex=CLAIM_TTL)
    log.note(calls=gateway.calls)


def _react(gateway: Gateway, intent: RunCommand) -> None:
    try:
        gateway.conversation.react(intent.comment_id, "eyes")
    except Refused as error:
        _log.info("no reaction on comment %s: %s", intent.comment_id, error)  # the answer matters more


def _answer(room: Room, gateway: Gateway, intent: RunCommand) -> str:
    command = parse(intent.body)
    if command is None:
        raise InputError("there is no command in the comment")
    pull = gateway.pull(intent.number)
    refusal = _refusal(gateway, intent, command if isinstance(command, Command) else None, pull)
    if refusal:
        return refusal
    if not isinstance(command, Command):
        return explain_mistake(command)
    from bot.sources.github import read_pull  # brings the analyzer in

    given = read_pull(gateway, pull, repo_id=intent.repo_id, generation=0)
    return answer_in_child(command, given, room.limits)


def _refusal(gateway: Gateway, intent: RunCommand, command: Command | None, pull: PullInfo) -> str | None:
    """None where the person may. ``author_association`` is wrong for private members: the API is asked."""
    author_may = command is None or who_may(command) == "author_or_write"
    if author_may and pull.author.casefold() == intent.author.casefold():
        return None
    if gateway.permission(intent.author) in {"admin", "write"}:
        return None
    whom = "the author of the pull request and people with write access" if author_may else "people with write access"
    return f"Sorry @{intent.author}, only {whom} may do this."
