"""The ledger as JSON: in the hidden comment, and on its way to the child that analyses code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from bot.core.ledger import Dismissal, Ignored, Ledger, Override, Posted

T = TypeVar("T")


def _columns(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """Type of each field, and whether it has no default."""
    types = get_type_hints(kind)
    return {field.name: (types[field.name], field.default is MISSING) for field in fields(kind)}


_COLUMNS: dict[type[Any], dict[str, tuple[Any, bool]]] = {
    kind: _columns(kind) for kind in (Posted, Dismissal, Ignored, Override)
}


def ledger_to_json(ledger: Ledger) -> dict[str, Any]:
    """A JSON object. Empty parts are left out: most ledgers have no decisions."""
    return {key: value for key, value in asdict(ledger).items() if value}


def ledger_from_json(document: object) -> Ledger:
    """The ledger that `ledger_to_json` wrote. Raises `TypeError` for anything of another shape."""
    if not isinstance(document, Mapping):
        raise TypeError("a ledger is an object")
    return Ledger(
        posted=_rows(document, "posted", Posted),
        dismissals=_rows(document, "dismissals", Dismissal),
        ignores=_rows(document, "ignores", Ignored),
        overrides=_rows(document, "overrides", Override),
        head_sha=_text(document, "head_sha"),
        distrusted=_text(document, "distrusted"),
    )


def _rows(document: Mapping[str, Any], name: str, kind: type[T]) -> tuple[T, ...]:
    rows = document.get(name, [])
    if not isinstance(rows, list):
        raise TypeError(f"{name} is a list")
    return tuple(_row(item, kind) for item in rows)


def _row(item: object, kind: type[T]) -> T:
    """One row whose every value has the type that its field says."""
    if not isinstance(item, Mapping):
        raise TypeError(f"a row of {kind.__name__} is an object")
    for name, (wanted, is_needed) in _COLUMNS[kind].items():
        if name not in item and not is_needed:
            continue
        value = item.get(name)
        fits = value in get_args(wanted) if get_origin(wanted) is Literal else type(value) is wanted
        if not fits:
            raise TypeError(f"{kind.__name__}.{name} is not {wanted}")
    return kind(**item)


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name, "")
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text")
    return value
