"""Names people write for GPUs and instances -> cards with usable bytes. Ambiguous names give every possible card."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass, replace
from functools import cache

from analyzer.errors import InputError
from estimator.tables import number, rows
from estimator.units import GIB, MIB

_CARD_COLUMNS = (
    "name",
    "aliases",
    "vendor",
    "architecture",
    "compute_capability",
    "advertised_gb",
    "total_memory_gib",
    "supported",
    "notes",
)
_INSTANCE_COLUMNS = (
    "provider",
    "instance_type",
    "gpu",
    "gpu_count",
    "gpu_mem_gb",
    "on_demand_usd_hour",
    "price_region",
    "price_date",
    "note",
)
_DRIVER_RESERVE = 0.006
"""Share of the host-reported MiB that PyTorch does not see: 0.55 of 79.65 GiB (H100), 0.60 of 140.40 (H200), 0.85 of
80.00 (A100), 0.71 of 179.06 (B200), 0.57 of 44.99 (L40S), 0.35 of 23.99 (RTX 4090)."""
_FIRST_WITH_BF16 = 8.0  # CUDA programming guide, "arithmetic instructions"
_FIRST_WITH_FP8 = 8.9  # the same: Ada, and Hopper after it
_NOMINAL_RESERVE = (
    0.02  # where only the label is known: A100-40 39.49, A30 23.50; ECC cards lose more and have own rows
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU (or MIG slice) as a target. `usable_bytes` None: no source says how large it is."""

    name: str
    architecture: str
    usable_bytes: int | None
    count: int = 1
    is_supported: bool = True
    has_bf16: bool = True
    """Whether it computes in bfloat16: NVIDIA's do from compute capability 8.0 on."""
    has_fp8: bool = True
    note: str = ""
    instance: str = ""
    provider: str = ""
    is_stated: bool = True  # an instance whose provider says how many cards of which size it has
    usd_hour: float | None = None
    region: str = ""
    """Where the price is asked, as the provider calls it; `priced` is the day it was read."""
    priced: str = ""

    @property
    def label(self) -> str:
        """How the answer names it."""
        return f"{self.instance} ({self.name})" if self.instance else self.name


@dataclass(frozen=True, slots=True)
class _Catalog:
    cards: dict[str, Card]
    spellings: dict[str, tuple[str, ...]]


def find(name: str) -> tuple[Card, ...]:
    """Every card or instance that `name` may mean. Raises `InputError` with the nearest names for an unknown one."""
    key = _key(name)
    catalog = _catalog()
    if found := catalog.spellings.get(_family_key(name)) or catalog.spellings.get(key):
        return tuple(catalog.cards[card] for card in found)
    if instances := _instances().get(_instance_key(name)):
        return instances
    size = re.fullmatch(r"(\d+(?:\.\d+)?)g(?:i?b)?(?:gpu)?", key)
    if size:
        return (_bare(float(size[1])),)
    if plainer := _plainer(name):
        return plainer
    close = nearest(name)
    hint = f"; nearest: {', '.join(close)}" if close else ""
    raise InputError(f"gpu: no GPU or instance type is called {name[:60]!r}{hint}")


def _plainer(name: str) -> tuple[Card, ...]:
    """``8x V100 GPUs`` and ``V100:8`` without the count, ``T4-16GB`` without a size that is the card's own label,
    ``H100-MIG-1g.10gb`` as the slice of that card, ``A6000`` and ``4090`` without ``RTX``."""
    text = re.sub(r"^\s*\d+\s*[x×]\s*|\s+gpus?\s*$|\s*:\s*\d{1,4}\s*$", "", name, flags=re.IGNORECASE)
    sized = re.fullmatch(r"(.+?)[-_ ]?(\d+)\s*gi?b", text, flags=re.IGNORECASE)
    sliced = re.fullmatch(r"(.+?)[-_ ]*(?:mig[-_ ]*)?(\d+g\.\d+gb(?:\+me)?)", text, flags=re.IGNORECASE)
    cards = spelled(text) or (spelled(f"rtx{text}") if re.fullmatch(r"a?\d{4}[\s-]?(ti)?", text.lower()) else ())
    if not cards and sliced:
        cards = tuple(card for card in spelled(sliced[2]) if _key(sliced[1]) in _key(card.name))
    if not cards and sized:
        label = int(sized[2]) * GIB
        cards = tuple(card for card in spelled(sized[1]) if 0.85 < (card.usable_bytes or 0) / label <= 1.0)
    return cards


def is_instance(name: str) -> bool:
    """Whether the name is that of an instance type."""
    return _instance_key(name) in _instances()


def count_in(name: str) -> int | None:
    """How many GPUs the name itself says: 8 for ``8xH100`` and ``H100:8``, the GPUs of an instance type."""
    if match := re.match(r"\s*(\d{1,4})\s*[xX×]\s*\D", name) or re.search(r":\s*(\d{1,4})\s*$", name):
        return int(match[1]) or None if find(name) else None
    cards = _instances().get(_instance_key(name), ())
    return cards[0].count if cards and cards[0].is_stated else None


def spelled(name: str) -> tuple[Card, ...]:
    """The cards that `name` is a spelling of; none for anything else."""
    catalog = _catalog()
    return tuple(catalog.cards[card] for card in catalog.spellings.get(_key(name), ()))


def _bare(gib: float) -> Card:
    return Card(name=f"GPU with {gib:g} GiB", architecture="", usable_bytes=int(gib * GIB))


def with_memory(cards: tuple[Card, ...], num_bytes: int) -> tuple[Card, ...]:
    """The cards an explicit size leaves: the one whose label it is, else one of exactly that size."""
    labelled = [card for card in cards if card.usable_bytes and abs(card.usable_bytes / num_bytes - 1) < 0.1]
    if labelled:
        return tuple(labelled)
    first = cards[0] if cards else Card(name="", architecture="", usable_bytes=None)
    name = f"{first.name or 'GPU'} with {num_bytes / GIB:g} GiB"
    return (replace(first, name=name, usable_bytes=num_bytes),)


def nearest(name: str, limit: int = 4) -> list[str]:
    """Names people could have meant."""
    shown = {_key(alias): alias for row in rows("gpus", _CARD_COLUMNS) for alias in _aliases(row)}
    shown.update({instance: instance for instance in _instances()})
    wanted = _key(name)
    close = difflib.get_close_matches(wanted, shown, n=5 * limit, cutoff=0.5)
    close.sort(key=lambda item: (-difflib.SequenceMatcher(None, item, wanted).ratio(), abs(len(item) - len(wanted))))
    return list(dict.fromkeys(shown[item] for item in close))[:limit]


def all_cards() -> tuple[Card, ...]:
    """Every card of the table, in its order."""
    return tuple(_catalog().cards.values())


def all_instances() -> tuple[Card, ...]:
    """Every instance type of the table, in its order."""
    return tuple(card for cards in _instances().values() for card in cards)


def _key(name: str) -> str:
    text = re.sub(r"[^a-z0-9.]+", "", name.lower())
    return text.removeprefix("nvidia").removeprefix("amd") or text


def _family_key(name: str) -> str:
    """``Tesla V100`` is as ambiguous as ``V100``; ``nvidia-tesla-v100`` is how one cloud calls one size."""
    key = re.sub(r"[^a-z0-9.]+", "", name.lower())
    return key.removeprefix("tesla") if key.removeprefix("tesla") in _ambiguous() else ""


def _instance_key(name: str) -> str:
    """How the table calls it: SageMaker puts ``ml.`` before EC2's name, and people leave out Azure's ``Standard_``."""
    plain = name.strip().lower().removeprefix("ml.")
    azure = f"standard_{plain}"
    return azure if plain not in _instances() and azure in _instances() else plain


def _aliases(row: dict[str, str]) -> list[str]:
    return [row["name"], *(alias.strip() for alias in row["aliases"].split(";") if alias.strip())]


def _usable(row: dict[str, str]) -> int | None:
    total, host, label = (number(row, name) for name in ("total_memory_gib", "nvidia_smi_total_mib", "advertised_gb"))
    if total is not None:
        return int(total * GIB)
    if host is not None:
        return int(host * MIB * (1 - _DRIVER_RESERVE))
    if label is None:
        return None
    reported = re.search(r"(\d{4,6}) MiB(?! nominal)", row["notes"])
    provider = int(reported[1]) * MIB * (1 - _DRIVER_RESERVE) if reported else math.inf
    return int(min(label * GIB * (1 - _NOMINAL_RESERVE), provider))


@cache
def _catalog() -> _Catalog:
    cards: dict[str, Card] = {}
    spellings: dict[str, list[str]] = {}
    for row in rows("gpus", _CARD_COLUMNS):
        card = Card(
            name=row["name"], architecture=row["architecture"], note=row["notes"],
            usable_bytes=_usable(row) if row["supported"] != "unified" else None,
            is_supported=row["supported"] == "yes",
            has_bf16=(number(row, "compute_capability") or _FIRST_WITH_BF16) >= _FIRST_WITH_BF16,
            has_fp8=(number(row, "compute_capability") or _FIRST_WITH_FP8) >= _FIRST_WITH_FP8,
        )  # fmt: skip
        cards[card.name] = card
        for alias in _aliases(row):
            spellings.setdefault(_key(alias), []).append(card.name)
    for short, names in _ambiguous().items():
        spellings[short] = names
    return _Catalog(cards, {key: tuple(dict.fromkeys(names)) for key, names in spellings.items()})


@cache
def _ambiguous() -> dict[str, list[str]]:
    """A bare name that the table calls ambiguous (``A100``) means every size sold under it: one card per label."""
    table = [row for row in rows("gpus", _CARD_COLUMNS) if "MIG" not in row["name"]]
    found: dict[str, list[str]] = {}
    for row in table:
        bare = re.search(r"bare (?:name )?(\w+) is ambiguous", row["notes"])
        if bare:
            family = [other for other in table if re.match(rf"NVIDIA {bare[1]} \d+GB", other["name"])]
            sizes = {other["advertised_gb"]: other["name"] for other in reversed(family)}
            found[_key(bare[1])] = list(reversed(sizes.values()))
    return found


@cache
def _instances() -> dict[str, tuple[Card, ...]]:
    found: dict[str, tuple[Card, ...]] = {}
    for row in rows("instances", _INSTANCE_COLUMNS):
        key = row["instance_type"].lower()
        found[key] = (*found.get(key, ()), _instance(row))
    return found


def _instance(row: dict[str, str]) -> Card:
    """The instance's card; where its GPU name is ambiguous, the size the provider states decides."""
    catalog = _catalog()
    size, count = number(row, "gpu_mem_gb"), number(row, "gpu_count")
    names = catalog.spellings.get(_key(row["gpu"]), ())
    cards = [catalog.cards[name] for name in names if catalog.cards[name].usable_bytes]
    if size is not None:
        stated = int(size * GIB)
        close = [card for card in cards if abs((card.usable_bytes or 0) / stated - 1) < 0.12]
        nominal = Card(name=row["gpu"], architecture="", usable_bytes=int(stated * (1 - _NOMINAL_RESERVE)))
        cards = close or [replace(cards[0], usable_bytes=nominal.usable_bytes) if cards else nominal]
    base = cards[0] if cards else Card(name=row["gpu"], architecture="", usable_bytes=None)
    is_supported = base.is_supported and "unsupported" not in row["note"]
    is_whole = bool(size) and count is not None and count >= 1
    return replace(base, count=int(count or 1) or 1, instance=row["instance_type"], provider=row["provider"],
                   is_supported=is_supported,
                   is_stated=is_whole, usd_hour=number(row, "on_demand_usd_hour"), note=row["note"],
                   region=row["price_region"], priced=row["price_date"])  # fmt: skip
