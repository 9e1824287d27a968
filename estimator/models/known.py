"""Models and networks that an id or the repository names."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

from estimator.models import images, nets, pixels
from estimator.models.facts import ModelFacts
from estimator.models.local import NOTHING, LocalNet
from estimator.models.nets import TracedNet
from estimator.models.rows import all_rows, facts_of, kind_of, row_of
from estimator.tables import number

_STORAGE_WORDS = {"awq": "int4", "gptq": "int4", "int4": "int4", "4bit": "int4", "bnb": "nf4", "fp8": "fp8",
                  "int8": "int8", "8bit": "int8"}  # fmt: skip


@lru_cache(maxsize=64)
def find_model(name: str) -> ModelFacts | None:
    """The facts of a public id; of the same name without its organisation; of the same model trained otherwise."""
    row = row_of(name)
    facts = facts_of(row) if row is not None else None
    if row is None or facts is None:
        return None
    key = name.strip().lower().rstrip("/")
    if row["hf_id"].lower() != key:
        facts = replace(facts, source=f"{facts.source}; read as {row['hf_id']}")
    return replace(facts, stored_as=_storage_of(key) or facts.stored_as)


def taken_for(name: str) -> str | None:
    """The listed id that a name of another owner was read as (``meta-lama/Llama-2-7b-hf``); None where its owner is the
    listed one, or none is named. Whoever writes an id may mean a copy, or may have misspelt it."""
    row = row_of(name)
    owner = name.strip().rstrip("/").lower().rpartition("/")[0]
    return row["hf_id"] if row is not None and owner and row["hf_id"].lower().rpartition("/")[0] != owner else None


_UNITS = 16  # that sharding gathers a traced network in: nothing says how somebody wraps it


def find_image_net(name: str) -> ModelFacts | None:
    """The likeliest of `find_image_nets`."""
    return next(iter(find_image_nets(name)), None)


def find_image_nets(name: str) -> list[ModelFacts]:
    """The facts of a network of pictures or sound that an id names: several where it is trained whole or in part."""
    found = []
    for net in images.readings(name):
        cost = images.cost(net, images.USUAL_SIDE, images.USUAL_SIDE, images.classes_of(net)[0])
        found.append(ModelFacts(
            id=name, kind="image", params=cost.params, layers=cost.blocks or _UNITS, hidden=1, heads=1, kv_heads=1,
            head_dim=1, ffn=1, vocab=0, source=images.describe(net), image_net=net, is_guessed=images.is_rough(net),
            frozen=cost.params - cost.trained if isinstance(net, TracedNet) else 0,
        ))  # fmt: skip
    return found


def find_pixel_net(name: str) -> ModelFacts | None:
    """The facts of a diffusion network that an id names."""
    net = pixels.find(name)
    if net is None:
        return None
    return ModelFacts(
        id=name, kind="dit", params=net.params, layers=net.layers, hidden=net.hidden, heads=1, kv_heads=1,
        head_dim=net.hidden, ffn=4 * net.hidden, vocab=0, source=f"traced: {net.source}", is_gated=False,
        pixel_net=net,
    )  # fmt: skip


def of_network(net: LocalNet, source: str) -> list[ModelFacts]:
    """The facts of a network of the repository for each input that fits; one without a forward pass if none does."""
    whole = ModelFacts(
        id=None, kind="local", params=net.params, layers=max(net.layers, 1), hidden=1, heads=1, kv_heads=1, head_dim=1,
        ffn=1, vocab=0, source=source, frozen=net.params - net.trained,
        local=NOTHING,
    )  # fmt: skip
    found = [replace(whole, local=each) for each in net.passes] or [whole]
    return found + [each for part in net.parts for each in of_network(part, source)]


def _storage_of(name: str) -> str | None:
    """Checkpoints say in their id how they are stored; the weights are not loaded as anything else."""
    words = re.split(r"[-_./\s]+", name)
    return next((_STORAGE_WORDS[word] for word in words if word in _STORAGE_WORDS), None)


def is_listed(name: str) -> bool:
    """Whether the table has a row for `name`, even one of a family that has no layer program."""
    return row_of(name) is not None


def params_of(name: str) -> int | None:
    """The parameter count of a listed model of any family."""
    row = row_of(name)
    return int(number(row, "params_total") or 0) or None if row else None


def listed_models() -> list[dict[str, Any]]:
    """Every row, for listing; behind them the networks that were traced."""
    found = [
        {
            "id": row["hf_id"],
            "params": int(number(row, "params_total") or 0),
            "family": row["family"],
            "kind": kind_of(row),
        }
        for row in all_rows()
    ]
    for each in found:
        if each["kind"] == "other" and images.readings(str(each["id"])):
            each["kind"] = "image"
    traced = {net.name: net for net in reversed(nets.every())}
    known = {each["id"] for each in found}
    for name, net in sorted(traced.items()):
        if name not in known:
            found.append({"id": name, "params": net.params, "family": net.library, "kind": "image"})
    return found


def nearest_models(name: str, limit: int = 3) -> list[str]:
    """Listed ids that look like `name`."""
    organisation = name.lower().split("/")[0]
    ids = sorted((row["hf_id"] for row in all_rows()), key=lambda one: one.lower().startswith(organisation))
    short = {one.rsplit("/", 1)[-1].lower(): one for one in (*nets.names(), *ids)}
    close = difflib.get_close_matches(name.lower().rsplit("/", 1)[-1], short, n=limit, cutoff=0.6)
    return [short[item] for item in close]
