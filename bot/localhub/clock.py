"""The hub's clock: UTC, whole seconds on the wire, as GitHub writes times."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(timezone.utc)


def stamp(moment: datetime) -> str:
    """``2026-11-29T18:00:00Z``."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_or_none(moment: datetime | None) -> str | None:
    """The same for a moment that may not have come."""
    return stamp(moment) if moment else None
