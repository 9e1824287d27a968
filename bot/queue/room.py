"""What every job and the sweeper need, made once per process from the environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import redis

from bot.github.gateway import Gateway
from bot.github.limits import PATIENCE
from bot.pages.desk import Desk
from bot.pages.links import ReportRef
from bot.pages.settings import page_settings
from bot.queue.claims import Claims
from bot.queue.enqueue import Enqueuer
from bot.queue.lease import Lease
from bot.queue.records import Record, Records
from bot.settings import WorkerSettings, worker_settings
from bot.store import Client, Keys, connect
from bot.telemetry.meter import Meter
from bot.workshop.parent import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Settings and the views on Redis."""

    settings: WorkerSettings
    client: Client
    keys: Keys
    claims: Claims
    records: Records
    enqueuer: Enqueuer
    desk: Desk
    meter: Meter

    def gateway(self, installation_id: int, repo_id: int, full_name: str, patience: float = PATIENCE) -> Gateway:
        return Gateway(
            self.settings,
            self.client,
            self.keys,
            installation_id=installation_id,
            repo_id=repo_id,
            full_name=full_name,
            patience=patience,
        )

    def gateway_of(self, record: Record, patience: float = PATIENCE) -> Gateway:
        gateway = self.gateway(record.installation_id, record.repo_id, record.full_name, patience)
        if record.number:  # a commit of the default branch has no report
            ref = ReportRef(repo_id=record.repo_id, number=record.number, head_sha=record.head_sha)
            gateway.checks.details_url = self.desk.address(ref)
        return gateway

    def is_superseded(self, record: Record) -> bool:
        return record.number > 0 and self.claims.generation(record.repo_id, record.number) > record.generation

    @property
    def limits(self) -> Limits:
        return Limits(wall_seconds=self.settings.times.child_wall)


def open_room(settings: WorkerSettings | None = None) -> Room:
    """Raises `InputError` where the environment lacks a setting."""
    settings = settings or worker_settings(os.environ)
    client = connect(settings.redis_url)
    keys = Keys(settings.namespace)
    enqueuer = Enqueuer(client, keys, review_timeout=settings.times.review_timeout)
    return Room(
        settings=settings,
        client=client,
        keys=keys,
        claims=Claims(client, keys),
        records=Records(client, keys),
        enqueuer=enqueuer,
        desk=Desk(page_settings(os.environ), client, keys),
        meter=Meter(client, keys),
    )


@contextmanager
def heartbeat(room: Room, name: str, turn: Lease) -> Iterator[None]:
    """Tell the sweeper that the job of review `name` is alive; from a thread, since the main one blocks."""
    stop = threading.Event()
    times = room.settings.times

    def beat() -> None:
        while not stop.wait(times.heartbeat):
            with suppress(redis.RedisError):  # the next beat tries again: a beat must not end for one bad moment
                room.records.beat(name, times.orphan_after)
                turn.hold(times.orphan_after)

    room.records.beat(name, times.orphan_after)
    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=5)
