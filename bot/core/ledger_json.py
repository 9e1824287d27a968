"""The ledger as JSON: in the hidden comment, and on its way to the child that analyses code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from bot.core.ledger import Dismissal, Ignored, Ledger, Override, Posted

T = TypeVar("T")


def ledger_to_json(ledger: Ledger) -> dict[str, Any]:
    """A JSON object. Empty parts are left out: most ledgers have no decisions."""
    return {key: value for key, value in asdict(ledger).items() if value}


def ledger_from_json(document: Mapping[str, Any]) -> Ledger:
    """The ledger that `ledger_to_json` wrote. Raises `TypeError` for rows of another shape."""

    def rows(name: str, kind: Callable[..., T]) -> tuple[T, ...]:
        return tuple(kind(**item) for item in document.get(name, ()))

    return Ledger(
        posted=rows("posted", Posted),
        dismissals=rows("dismissals", Dismissal),
        ignores=rows("ignores", Ignored),
        overrides=rows("overrides", Override),
        head_sha=str(document.get("head_sha", "")),
        distrusted=str(document.get("distrusted", "")),
    )
