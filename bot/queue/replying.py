"""The answer to a command that asked for a review: said when the review ends, however it ends."""

from __future__ import annotations

import logging

from bot.core.plan import Plan
from bot.github.errors import Refused
from bot.github.gateway import Gateway
from bot.queue.desk import AnswerPlace
from bot.queue.failures import persistently
from bot.queue.records import Record
from bot.render.answers import failed_text, review_text

_log = logging.getLogger("preflight.jobs")


def reply_with_plan(gateway: Gateway, record: Record, plan: Plan, num_comments: int) -> None:
    """What the review found."""
    _say(gateway, record, review_text(plan, num_comments))


def reply_with_ending(gateway: Gateway, record: Record, why: str) -> None:
    """Why there is no result. An answer that is there stays: a newer review of the same question gave it."""
    _say(gateway, record, failed_text(why), only_new=True)


def _say(gateway: Gateway, record: Record, text: str, *, only_new: bool = False) -> None:
    if not record.answer_key:
        return
    place = AnswerPlace(key=record.answer_key, thread=record.answer_thread)
    try:
        persistently(lambda: place.say(gateway, record.number, text, only_new=only_new))
    except Refused as error:  # locked conversation, deleted thread: the checks say the same
        _log.warning("review=%s not answered: %s", record.name, error)
