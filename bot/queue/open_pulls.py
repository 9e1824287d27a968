"""Open pull requests whose head has no concluded check run of ours: their event never came, or Redis was lost.

Each repository is looked at every `watch` seconds, a few repositories a time. A list that did not change since every
head in it was concluded is a 304, which costs nothing of GitHub's limit. Only what moved within GitHub's window for
redeliveries and after the app was installed is reviewed: nobody wants a hundred old pull requests reviewed at once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bot.core.plan import CHECK_NAMES
from bot.errors import InputError, Unavailable
from bot.github.app import AppApi, OpenHead, Place, Watch
from bot.github.errors import NotFound, Refused
from bot.intents import ReviewPull
from bot.queue.room import Room
from bot.store import CLAIM_TTL, DAY, REDELIVERY_WINDOW

_log = logging.getLogger("preflight.sweep")
_MAX_PLACES = 20
_MAX_CALLS = 80
"""Of one look: repositories, and requests to GitHub."""
_LISTED_FOR = 4
"""Rounds of looks until the repositories of all installations are listed again."""
_MAX_REVIEWS = 10
"""Reviews queued for one repository in one look."""


class OpenPulls:
    """Finds heads that wait for us."""

    def __init__(self, room: Room, api: AppApi) -> None:
        self._room = room
        self._api = api

    def step(self, now: float) -> int:
        """How many reviews were queued."""
        self._list_places(now)
        client, key = self._room.client, self._room.keys.places()
        due: Any = client.zrangebyscore(key, "-inf", now, start=0, num=_MAX_PLACES)
        queued = calls = 0
        for member in due:
            if calls >= _MAX_CALLS:
                break
            place = Place(**json.loads(member))
            watch = self._api.watch(place.installation_id)
            # Before the look: one repository that always fails must not keep the others waiting.
            client.zadd(key, {member: now + self._room.settings.times.watch}, xx=True)
            try:
                found, is_settled = self._look_at(place, watch, now)
            except NotFound:
                client.zrem(key, member)  # renamed or gone: the next list tells
                continue
            except (Refused, InputError, Unavailable) as error:
                _log.info("repository=%s is not looked at now: %s", place.full_name, error)
                continue
            finally:
                calls += watch.calls
            queued += found
            if not is_settled:
                soon = min(self._room.settings.times.watch, self._room.settings.times.orphan_after)
                client.zadd(key, {member: now + soon}, xx=True)
        return queued

    def _list_places(self, now: float) -> None:
        client, keys = self._room.client, self._room.keys
        if client.exists(keys.places_listed()):
            return
        known: Any = client.zrange(keys.places(), 0, -1)
        found = dict(self._api.places())
        listed = {json.dumps(asdict(place)).encode() for places in found.values() for place in places or ()}
        unknown = {number for number, places in found.items() if places is None}
        kept = {member for member in known if json.loads(member)["installation_id"] in unknown}
        pipe = client.pipeline()
        if gone := set(known) - listed - kept:
            pipe.zrem(keys.places(), *gone)
        spread = self._room.settings.times.watch / max(1, len(listed))
        for number, member in enumerate(sorted(listed)):
            pipe.zadd(keys.places(), {member: now + number * spread}, nx=True)
        pipe.set(keys.places_listed(), "1", ex=max(1, int(_LISTED_FOR * self._room.settings.times.watch)))
        pipe.execute()

    def _look_at(self, place: Place, watch: Watch, now: float) -> tuple[int, bool]:
        """Reviews queued, and whether no head of this repository waits any more."""
        client, key = self._room.client, self._room.keys.pulls_etag(place.repo_id)
        etag: Any = client.get(key)
        heads, etag = watch.open_heads(place, str(etag or b"", "utf-8"))
        if heads is None:
            return 0, True
        waiting = [head for head in heads if self._may_wait(place, head, now)]
        queued, is_settled = self._repair(place, watch, waiting, now)
        if is_settled and etag:
            client.set(key, etag, ex=DAY)
        return queued, is_settled

    def _may_wait(self, place: Place, head: OpenHead, now: float) -> bool:
        is_recent = head.updated_at >= max(now - REDELIVERY_WINDOW, place.since)
        return is_recent and not self._room.client.exists(self._room.keys.concluded(place.repo_id, head.sha))

    def _repair(self, place: Place, watch: Watch, heads: Sequence[OpenHead], now: float) -> tuple[int, bool]:
        queued, is_settled = 0, True
        for head in heads:
            if self._is_under_way(place, head):
                is_settled = False
                continue
            if queued >= _MAX_REVIEWS or watch.calls >= _MAX_CALLS:
                return queued, False
            runs = watch.runs(place, head.sha)
            open_runs = {name: run.id for name, run in runs.items() if run.status != "completed"}
            if runs.keys() >= set(CHECK_NAMES) and not open_runs:
                self._room.client.set(self._room.keys.concluded(place.repo_id, head.sha), "1", ex=CLAIM_TTL)
                continue
            is_settled = False
            if self._was_missing(place, head, now) and not self._is_under_way(place, head):
                self._review(place, head, open_runs)
                queued += 1
        return queued, is_settled

    def _is_under_way(self, place: Place, head: OpenHead) -> bool:
        names = self._room.records.of_pull(place.repo_id, head.number)
        return any(name.startswith(f"{place.repo_id}-{head.number}-{head.sha}-") for name in names)

    def _was_missing(self, place: Place, head: OpenHead, now: float) -> bool:
        """Only the second look counts: the event of a fresh push is on its way."""
        client, key = self._room.client, self._room.keys.missing(place.repo_id, head.sha)
        if client.set(key, repr(now), nx=True, ex=DAY):
            return False
        since = float(client.get(key) or now)
        return now - since >= self._room.settings.times.orphan_after

    def _review(self, place: Place, head: OpenHead, runs: dict[str, int]) -> None:
        intent = ReviewPull.of(place, head.number, head.sha, "no check run")
        self._room.meter.count("preflight_failures", kind="head without check run")
        job = self._room.enqueuer.new_review(intent, f"watch-{head.sha[:12]}", runs)
        self._room.client.delete(self._room.keys.missing(place.repo_id, head.sha))
        _log.warning("pull=%s#%d head=%s had no check run: queued %s", place.full_name, head.number, head.sha, job)
