"""Deliveries that GitHub counts as failed (it never tries again by itself): asked for once more, a few times each.

A redelivery has the guid of the first attempt. The claim under that guid says whether we have its job after all: then
only our answer was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from bot.github.app import AppApi, FailedDelivery
from bot.github.errors import Refused
from bot.queue.claims import is_delivery_id
from bot.queue.room import Room
from bot.store import DAY, REDELIVERY_WINDOW

_log = logging.getLogger("preflight.sweep")
_WAITS = (0.0, 60.0, 600.0, 3_600.0, 6 * 3_600.0)
"""Seconds before each time that we ask for one delivery; after the last one we do not ask again."""
_MAX_PAGES = 4
_MAX_ASKED = 25
"""Of one look: pages of 100 read, and deliveries asked for."""
_NOISE = frozenset(
    {
        ("ping", ""),
        ("check_run", "created"),
        ("check_run", "completed"),
        ("check_suite", "requested"),
        ("check_suite", "completed"),
    }
)
"""Echoes of what we do ourselves: nothing follows from them."""


class Redelivery:
    """One look at a time. The newest failures come first; a long list is walked over several looks."""

    def __init__(self, room: Room, api: AppApi) -> None:
        self._room = room
        self._api = api

    def step(self, now: float) -> int:
        """How many deliveries were asked for."""
        client, key = self._room.client, self._room.keys.walk()
        asked, cursor = 0, ""
        saved: Any = client.get(key)
        for page in range(_MAX_PAGES):
            if page == 1 and saved:  # the top was looked at: go on where the last look stopped
                cursor = str(saved, "utf-8")
            found, cursor = self._api.failed_deliveries(cursor)
            asked += self._ask_for(found, _MAX_ASKED - asked, now)
            is_over = not cursor or not found or found[-1].delivered_at < now - REDELIVERY_WINDOW
            if is_over and (page > 0 or not saved):
                client.delete(key)
                return asked
            if asked >= _MAX_ASKED:
                return asked  # what was not asked for on this page is asked for next time
            if page > 0 or not saved:
                client.set(key, cursor, ex=DAY)
        return asked

    def _ask_for(self, found: Sequence[FailedDelivery], most: int, now: float) -> int:
        asked = 0
        for delivery in found:
            if asked >= most:
                break
            if now - delivery.delivered_at > REDELIVERY_WINDOW or not self._is_wanted(delivery):
                continue
            if self._may_ask(delivery.guid, now):
                asked += 1
                self._ask(delivery)
        return asked

    def _is_wanted(self, delivery: FailedDelivery) -> bool:
        return (
            (delivery.event, delivery.action) not in _NOISE
            and is_delivery_id(delivery.guid)
            and not self._room.claims.is_accepted(delivery.guid)
        )

    def _may_ask(self, guid: str, now: float) -> bool:
        """Counted before it is asked for: whatever dies in between, the number of times is bounded."""
        client, key = self._room.client, self._room.keys.redelivery(guid)
        times, due = (float(value or 0) for value in client.hmget(key, "times", "next"))
        if now < due or times >= len(_WAITS):
            return False
        wait = _WAITS[min(int(times) + 1, len(_WAITS) - 1)]
        pipe = client.pipeline()
        pipe.hset(key, mapping={"times": int(times) + 1, "next": repr(now + wait)})
        pipe.expire(key, REDELIVERY_WINDOW)
        pipe.execute()
        return True

    def _ask(self, delivery: FailedDelivery) -> None:
        try:
            self._api.deliver_again(delivery.id)
        except Refused as error:  # too old, or gone
            _log.info("delivery=%s is not delivered again: %s", delivery.guid, error)
        else:
            self._room.meter.count("preflight_failures", kind="delivery asked for again")
            _log.warning("delivery=%s event=%s had failed: asked for again", delivery.guid, delivery.event)
