"""The tables as rows for listing and searching: ``preflight gpus``, ``instances`` and ``models``."""

from __future__ import annotations

from typing import Any

from estimator import hardware
from estimator.models.known import listed_models
from estimator.tables import rows
from estimator.units import to_gib


def gpu_rows(search: str = "") -> list[dict[str, Any]]:
    """Cards whose name contains `search`, or that `search` is a spelling of. Memory in GiB."""
    named = {card.name for card in _spelled(search)}
    words = search.lower()
    found = [card for card in hardware.all_cards() if words in card.name.lower() or card.name in named]
    return [
        {
            "name": card.name,
            "architecture": card.architecture,
            "usable_gib": None if card.usable_bytes is None else to_gib(card.usable_bytes),
            "supported": card.is_supported,
            "note": card.note,
        }
        for card in found
    ]


def _spelled(search: str) -> tuple[hardware.Card, ...]:
    return hardware.spelled(search) if search else ()


def instance_rows(search: str = "") -> list[dict[str, Any]]:
    """Instance types whose name, provider or GPU contains `search`. Memory in GiB per GPU, price in USD per hour."""
    providers = {row["instance_type"].lower(): row["provider"] for row in rows("instances")}
    found = []
    for card in hardware.all_instances():
        provider = providers[card.instance.lower()]
        if search.lower() in f"{provider} {card.instance} {card.name}".lower():
            usable = None if card.usable_bytes is None else to_gib(card.usable_bytes)
            found.append(
                {"provider": provider, "instance_type": card.instance, "gpu": card.name, "count": card.count,
                 "usable_gib": usable, "usd_hour": card.usd_hour, "supported": card.is_supported}
            )  # fmt: skip
    return found


def model_rows(search: str = "") -> list[dict[str, Any]]:
    """Models whose id contains `search`. `kind` "other" means that no layer program covers the family yet."""
    return [row for row in listed_models() if search.lower() in row["id"].lower()]
