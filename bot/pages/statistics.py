"""Counts in Redis: per repository and month, for a bit more than a year. No code, no path, no name of a person.

A pull request is counted when it is closed. What it counted is remembered beside, so that a job that runs twice, or a
pull request that is closed twice, replaces its counts and never adds them again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Literal, get_args

import redis

from bot.core.tally import Counts, Kind, Metric, Row, rows
from bot.store import DAY, Client, Keys

Group = Literal["rule", "framework", "pattern", "repository"]
GROUPS: tuple[Group, ...] = get_args(Group)
KEPT_DAYS = 400
NOTES_DAYS = 90
_MAX_FIELDS = 4_000
"""Kinds of one repository in one month; beyond, patterns are not told apart."""
_MAX_MONTHS = 13
_ATTEMPTS = 20


class Statistics:
    """Writes counts and adds them up."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    # --- what a review leaves behind until the pull request is closed ----------------------------------------------

    def note(
        self, repo_id: int, number: int, traits: Mapping[str, Kind], hidden: Iterable[tuple[str, str, str]]
    ) -> None:
        """Remember what sort of findings a head has, besides those of earlier heads, and what its comments hide."""
        key = self._keys.traits(repo_id, number)
        known, _ = self.noted(repo_id, number)
        merged = {**known, **traits}
        document = {
            "traits": {fingerprint: asdict(kind) for fingerprint, kind in list(merged.items())[-2_000:]},
            "hidden": [list(item) for item in hidden][:500],
        }
        self._client.set(key, json.dumps(document), ex=NOTES_DAYS * DAY)

    def noted(self, repo_id: int, number: int) -> tuple[dict[str, Kind], list[tuple[str, str, str]]]:
        """What the reviews of a pull request left; empty after a flush."""
        text: Any = self._client.get(self._keys.traits(repo_id, number))
        if not text:
            return {}, []
        document = json.loads(text)
        traits = {fingerprint: Kind(**kind) for fingerprint, kind in document["traits"].items()}
        return traits, [(rule, path, framework) for rule, path, framework in document["hidden"]]

    # --- counts ------------------------------------------------------------------------------------------------------

    def count(self, repo_id: int, number: int, full_name: str, counts: Counts, now: float) -> None:
        """The counts of a closed pull request, in place of those it had."""
        own = self._keys.counted(repo_id, number)
        for _ in range(_ATTEMPTS):
            with self._client.pipeline() as pipe:
                try:
                    pipe.watch(own)  # type: ignore[no-untyped-call]
                    before: Any = pipe.get(own)
                    month, old = json.loads(before) if before else (time.strftime("%Y-%m", time.gmtime(now)), {})
                    key = self._keys.statistics(repo_id, month)
                    new = _fields(counts, is_full=int(self._client.hlen(key)) > _MAX_FIELDS)
                    pipe.multi()
                    for field in sorted({*old, *new}):
                        change = new.get(field, 0) - old.get(field, 0)
                        if change:
                            pipe.hincrby(key, field, change)
                    pipe.set(own, json.dumps([month, new]), ex=KEPT_DAYS * DAY)
                    pipe.hset(self._keys.counted_repositories(), str(repo_id), full_name)
                    for each in (key, self._keys.counted_repositories()):
                        pipe.expire(each, KEPT_DAYS * DAY)
                    pipe.execute()
                    return
                except redis.WatchError:
                    continue
        raise redis.WatchError("the counts of a pull request are written by somebody else all the time")

    def repositories(self) -> dict[int, str]:
        """Those with counts, by id, under the name they had last."""
        found: Any = self._client.hgetall(self._keys.counted_repositories())
        return {int(repo_id): str(name, "utf-8", "replace") for repo_id, name in found.items()}

    def rows(self, repo_ids: Mapping[int, str], group: Group, months: int, now: float) -> tuple[Row, ...]:
        """The counts of the last months, this one included, grouped."""
        return rows(self._counted(repo_ids, group, months, now))

    def _counted(
        self, repo_ids: Mapping[int, str], group: Group, months: int, now: float
    ) -> Iterator[tuple[str, Metric, int]]:
        for repo_id, name in repo_ids.items():
            for month in _last(months, now):
                found: Any = self._client.hgetall(self._keys.statistics(repo_id, month))
                for field, number in found.items():
                    rule, framework, pattern, metric = json.loads(field)
                    shown = f"{rule} {pattern}".strip()
                    names = {"rule": rule, "framework": framework, "pattern": shown, "repository": name}
                    if int(number) > 0:
                        yield names[group], metric, int(number)


def _fields(counts: Counts, *, is_full: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for (kind, metric), number in counts.items():
        pattern = "" if is_full else kind.pattern
        field = json.dumps([kind.rule, kind.framework, pattern, metric], ensure_ascii=False)
        found[field] = found.get(field, 0) + number
    return found


def _last(months: int, now: float) -> Iterator[str]:
    year, month = time.gmtime(now)[:2]
    for back in range(min(months, _MAX_MONTHS)):
        index = year * 12 + month - 1 - back
        yield f"{index // 12:04d}-{index % 12 + 1:02d}"
