"""A button of ours on a check run: a command of the person who pressed it."""

from __future__ import annotations

from typing import Any

from bot import intents
from bot.core.buttons import command_of
from bot.core.external_id import parse_external_id
from bot.github.gateway import Gateway
from bot.github.pulls import PullInfo
from bot.intents import CheckPush, PressButton, ReviewPull
from bot.queue.command import answered, execute, is_once_too_often, refused, say
from bot.queue.desk import AnswerPlace, Desk
from bot.queue.logbook import Logbook
from bot.queue.room import Room
from bot.render.answers import moved_text

_CHANGES_THE_BRANCH = "fix"


def press(room: Room, document: dict[str, Any], delivery: str, log: Logbook) -> None:
    """The answer is a comment of the pull request, one for each button of each run; a re-run answers by its checks."""
    intent = intents.from_json(document)
    assert isinstance(intent, PressButton)
    gateway = room.gateway(intent.installation_id, intent.repo_id, intent.full_name)
    number = _pull_of(gateway, intent)
    if number is None:
        log.note(branch=_renew_branch(room, gateway, intent, delivery))
        return
    place = AnswerPlace(key=f"button-{intent.check_run_id}-{intent.button}")
    text = answered(lambda: _answer(room, gateway, intent, gateway.pull(number), place, delivery), delivery)
    if text is not None:
        say(gateway, place, number, text)
    log.note(calls=gateway.calls, button=intent.button, pull=number)


def _answer(
    room: Room, gateway: Gateway, intent: PressButton, pull: PullInfo, place: AnswerPlace, delivery: str
) -> str | None:
    command = command_of(intent.button, intent.check, _summary(gateway, intent))
    refusal = refused(gateway, intent.sender, command, pull)
    if refusal:
        return (
            None
            if is_once_too_often(room, intent.repo_id, pull.number, intent.sender, delivery, "refused")
            else refusal
        )
    if is_once_too_often(room, intent.repo_id, pull.number, intent.sender, delivery, "run"):
        return None
    if command is None:
        _review_again(room, intent, pull, delivery)
        return None
    desk = Desk.of(room, gateway, intent, pull, sender=intent.sender, delivery=delivery, place=place)
    if intent.button == _CHANGES_THE_BRANCH and pull.head_sha != intent.head_sha and desk.noted() is None:
        return moved_text(intent.head_sha, pull.head_ref)
    return execute(desk, command)


def _summary(gateway: Gateway, intent: PressButton) -> str:
    return gateway.checks.summary(intent.check_run_id) if intent.button == "explain" else ""


def _review_again(room: Room, intent: PressButton, pull: PullInfo, delivery: str) -> None:
    review = ReviewPull.of(intent, pull.number, pull.head_sha, "re-run")
    room.enqueuer.new_review(review, delivery)


def _renew_branch(room: Room, gateway: Gateway, intent: PressButton, delivery: str) -> bool:
    """A check on a commit of the default branch belongs to no pull request: it can only be made again."""
    known = parse_external_id(intent.external_id)
    if known is None or not known.is_of_branch or intent.button != "rerun":
        return False
    if gateway.permission(intent.sender) not in {"admin", "write"}:
        return False
    push = CheckPush.of(intent, intent.head_sha)
    room.enqueuer.new_review(push, delivery)
    return True


def _pull_of(gateway: Gateway, intent: PressButton) -> int | None:
    """From our external id; events of forks name no pull request."""
    known = parse_external_id(intent.external_id)
    if known is not None and known.repo_id == intent.repo_id and known.number > 0:
        return known.number
    return next(iter(gateway.open_pulls_with_head(intent.head_sha)), None)
