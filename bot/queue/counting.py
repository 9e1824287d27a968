"""Count what became of a pull request's findings, once it is closed."""

from __future__ import annotations

import logging
import time

from bot.core.tally import tally
from bot.github.errors import Refused
from bot.github.gateway import Gateway
from bot.github.pulls import PullInfo
from bot.intents import ClosePull
from bot.queue.memory import remembered
from bot.queue.room import Room

_log = logging.getLogger("preflight.jobs")


def count_closed(room: Room, gateway: Gateway, intent: ClosePull, pull: PullInfo) -> int:
    """Read ledger, threads and reactions in one query; the number of findings counted."""
    statistics = room.desk.statistics
    traits, hidden = statistics.noted(intent.repo_id, intent.number)
    if not traits and not hidden and pull.num_comments == 0 and pull.num_review_comments == 0:
        return 0
    try:
        talk = gateway.talks.read(intent.number, with_reactions=True)
    except Refused as error:
        _log.warning("pull request %s#%s not counted: %s", intent.repo_id, intent.number, error)
        return 0
    ledger = remembered(gateway, intent.number, intent.head_sha, talk).ledger
    counts = tally(ledger, talk.threads, traits, hidden, is_merged=intent.merged)
    if counts:
        statistics.count(intent.repo_id, intent.number, intent.full_name, counts, time.time())
    return sum(number for (_, metric), number in counts.items() if metric == "findings")
