"""A decision of a person: written into the ledger on GitHub, and a new review that knows of it.

The new review is queued before the ledger is written, under the publisher's lease: a review that read the ledger before
is superseded, so it cannot write the old one back; the new one needs the lease to begin, so it reads the new ledger;
and when the write fails, a review with the old one follows and no check is left cancelled.
"""

from __future__ import annotations

from datetime import datetime, timezone

from bot.core.deciding import Decide, Maker
from bot.intents import ReviewPull
from bot.queue.desk import Desk
from bot.queue.memory import remembered, write_summary
from bot.render.summary import decided_summary


def decide(desk: Desk, choose: Decide) -> str:
    """Carry out `choose`; the answer to the person. Raises `InputError` for what cannot be decided."""
    gateway, pull = desk.gateway, desk.pull
    when = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    maker = Maker(who=desk.sender, when=when, head_sha=pull.head_sha)
    with gateway.publishing():
        memory = remembered(gateway, pull.number, pull.head_sha, gateway.talks.read(pull.number))
        decided = choose(memory.ledger, maker)
        if decided.ledger is None:
            return decided.answer
        desk.room.enqueuer.new_review(_review_again(desk), desk.delivery)
        text = memory.talk.summary.body if memory.talk.summary else decided_summary(decided.ledger, pull.head_sha)
        write_summary(gateway, pull.number, text, decided.ledger, memory)
    return decided.answer


def _review_again(desk: Desk) -> ReviewPull:
    return ReviewPull.of(desk, desk.pull.number, desk.pull.head_sha, "decision")
