"""A slash command: eyes at once, permission from the API, one answer, always."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import redis
from rq.timeouts import JobTimeoutException

from bot import intents
from bot.core.commands import (
    Act,
    Command,
    CommandContext,
    ThreadFinding,
    answer,
    explain_mistake,
    parse,
    reads,
    who_may,
)
from bot.core.ledger import Ledger
from bot.core.thread import thread_finding
from bot.errors import InputError, Unavailable
from bot.github.errors import Refused
from bot.github.gateway import Gateway
from bot.github.pulls import PullInfo
from bot.intents import RunCommand
from bot.queue.acts import carry_out
from bot.queue.desk import AnswerPlace, Desk
from bot.queue.failures import persistently
from bot.queue.logbook import Logbook
from bot.queue.memory import remembered
from bot.queue.room import Room
from bot.render.answers import closed_text, failed_text, refused_text, too_many_text
from bot.store import CLAIM_TTL, HOUR
from bot.workshop.parent import AnalysisDied, answer_in_child

_log = logging.getLogger("preflight.jobs")
_MOST = {"run": 30, "refused": 3}
"""An hour, of one person on one pull request. What a stranger asks beyond that gets a reaction and no words."""


def run(room: Room, document: dict[str, Any], delivery: str, log: Logbook) -> None:
    """Answer one comment, or let it be answered where analyses wait. Repeatable: an answer that is there is edited."""
    intent = _intent(document)
    if _is_answered(room, intent):
        return
    gateway = room.gateway(intent.installation_id, intent.repo_id, intent.full_name)
    react(gateway, intent, "eyes")
    command = parse(intent.body)
    if isinstance(command, Command) and reads(command) != "nothing":
        log.note(calls=gateway.calls, queued=room.enqueuer.answer_command(document, delivery))
    else:
        _answer_once(room, gateway, intent, delivery, log)


def answer_later(room: Room, document: dict[str, Any], delivery: str, log: Logbook) -> None:
    """The second half of a command that looks at code."""
    intent = _intent(document)
    if not _is_answered(room, intent):
        gateway = room.gateway(intent.installation_id, intent.repo_id, intent.full_name)
        _answer_once(room, gateway, intent, delivery, log)


def _intent(document: dict[str, Any]) -> RunCommand:
    intent = intents.from_json(document)
    if not isinstance(intent, RunCommand):
        raise InputError("not a command")
    return intent


def _is_answered(room: Room, intent: RunCommand) -> bool:
    return bool(room.client.exists(room.keys.answered(intent.comment_id, intent.repo_id)))


def _answer_once(room: Room, gateway: Gateway, intent: RunCommand, delivery: str, log: Logbook) -> None:
    place = AnswerPlace(key=str(intent.comment_id), thread=intent.thread)
    text = answered(lambda: _answer(room, gateway, intent, delivery, place), delivery)
    if text is not None:
        say(gateway, place, intent.number, text)
    room.client.set(room.keys.answered(intent.comment_id, intent.repo_id), "1", ex=CLAIM_TTL)
    log.note(calls=gateway.calls)


def say(gateway: Gateway, place: AnswerPlace, number: int, text: str) -> None:
    """An answer where GitHub takes one: not in a locked conversation, not where the repository is gone."""
    try:
        persistently(lambda: place.say(gateway, number, text))
    except Refused as error:
        _log.warning("no answer on pull request %s: %s", number, error)


def answered(work: Callable[[], str | None], delivery: str) -> str | None:
    """What `work` answers, whatever happens to it; only what is worth trying again is raised."""
    try:
        return work()
    except (Unavailable, redis.RedisError):
        raise
    except (InputError, AnalysisDied) as error:
        return failed_text(str(error))
    except Refused as error:  # a permission that the installation lacks, a repository that is gone
        _log.warning("delivery=%s refused: %s", delivery, error)
        return failed_text(str(error))
    except JobTimeoutException:
        return failed_text("it took too long; a smaller question may be answered")
    except Exception as error:  # noqa: BLE001  a command is always answered; the traceback is in the log
        _log.exception("delivery=%s command failed", delivery)
        return failed_text(f"a bug in Preflight ({type(error).__name__}); the log of the worker has the details")


def react(gateway: Gateway, intent: RunCommand, content: str) -> None:
    """On the comment of the command, wherever it stands."""
    try:
        with gateway.publishing():
            if intent.thread:
                gateway.threads.react(intent.comment_id, content)
            else:
                gateway.conversation.react(intent.comment_id, content)
    except Refused as error:
        _log.info("no reaction on comment %s: %s", intent.comment_id, error)  # the answer matters more


def _answer(room: Room, gateway: Gateway, intent: RunCommand, delivery: str, place: AnswerPlace) -> str | None:
    command = parse(intent.body)
    if command is None:
        raise InputError("there is no command in the comment")
    pull = gateway.pull(intent.number)
    refusal = refused(gateway, intent.author, command if isinstance(command, Command) else None, pull)
    if refusal:
        if not is_once_too_often(room, intent.repo_id, intent.number, intent.author, delivery, "refused"):
            return refusal
        react(gateway, intent, "-1")
        return None
    if is_once_too_often(room, intent.repo_id, intent.number, intent.author, delivery, "run"):
        return too_many_text(_MOST["run"])
    if not isinstance(command, Command):
        return explain_mistake(command)
    desk = Desk.of(room, gateway, intent, pull, sender=intent.author, delivery=delivery, place=place)
    return execute(desk, command, _thread(gateway, intent.thread))


def is_once_too_often(room: Room, repo_id: int, number: int, login: str, delivery: str, kind: str) -> bool:
    """Count what a person asked on a pull request within the hour, this time included; a repeated job counts once."""
    key = room.keys.asked(repo_id, number, login, kind)
    pipe = room.client.pipeline()
    pipe.sadd(key, delivery)
    pipe.expire(key, HOUR)
    pipe.scard(key)
    return int(pipe.execute()[-1]) > _MOST[kind]


def execute(desk: Desk, command: Command, thread: ThreadFinding | None = None) -> str | None:
    """The answer to a command of somebody who may give it; None where it comes with a review."""
    if earlier := desk.noted():
        return earlier
    if reads(command) == "nothing":
        context = CommandContext(head_sha=desk.pull.head_sha, sender=desk.sender, thread=thread)
        found = answer(command, context)
    else:
        from bot.sources.github import read_pull  # brings the analyzer in

        ledger = _ledger(desk) if reads(command) == "code" else None
        given = read_pull(
            desk.gateway, desk.pull, repo_id=desk.repo_id, generation=0, ledger=ledger, named=command.words
        )
        found = answer_in_child(command, given, desk.room.limits, desk.sender)
    if not isinstance(found, Act):
        return found
    if not desk.pull.is_open:
        return closed_text(command.name)
    return carry_out(command.name, desk, found)


def _ledger(desk: Desk) -> Ledger:
    """What people decided on the pull request."""
    gateway, pull = desk.gateway, desk.pull
    return remembered(gateway, pull.number, pull.head_sha, gateway.talks.read(pull.number)).ledger


def refused(gateway: Gateway, sender: str, command: Command | None, pull: PullInfo) -> str | None:
    """None where the person may. ``author_association`` is wrong for private members: the API is asked."""
    author_may = command is None or who_may(command) == "author_or_write"
    if author_may and pull.author.casefold() == sender.casefold():
        return None
    if gateway.permission(sender) in {"admin", "write"}:
        return None
    return refused_text(sender, author_may=author_may)


def _thread(gateway: Gateway, first: int) -> ThreadFinding | None:
    """The finding a thread is about; a marker in somebody else's comment says nothing."""
    start = gateway.threads.start(first) if first else None
    return thread_finding(start.body, start.path, start.line) if start is not None and start.is_own else None
