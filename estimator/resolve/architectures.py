"""Models that a script builds from a configuration class: their widths and layer counts, with origins.

``LlamaForCausalLM(LlamaConfig(hidden_size=…))``: the analyzer says what reaches the class; its defaults are data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analyzer.api import CallSite, Known, Ref, Unseen
from estimator.resolve import rows
from estimator.sourced import Origin, Sourced, Unknown

_FROM_CONFIG = "*.from_config"


def callees() -> frozenset[str]:
    """Every name the table asks for."""
    names = {name for row in _table() for kind in ("configs", "models") for name in row[kind]}
    return frozenset({*names, _FROM_CONFIG})


def _table() -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = rows.table("frameworks")["architecture"]
    return found


def built(sites: Sequence[CallSite]) -> tuple[Sourced[Any], Origin] | None:
    """The architecture of the one model that is built, and where; None where none is, or several different ones."""
    configs = {site.id: site for site in sites if any(site.callee in row["configs"] for row in _table())}
    found: dict[str, tuple[Sourced[Any], Origin]] = {}
    for site in sites:
        is_model = site.callee.endswith(_FROM_CONFIG[1:]) or any(site.callee in row["models"] for row in _table())
        given = site.arguments.get("0", site.arguments.get("config", ())) if is_model else ()
        for item in given:
            config = configs.get(item.call) if isinstance(item, Ref) and item.call is not None else None
            if config is not None:
                arch = _arch(config)
                found.setdefault(repr(arch.value), (arch, Origin(site.callee, site.origin.path, site.origin.line)))
    return next(iter(found.values())) if len(found) == 1 else None


def _arch(config: CallSite) -> Sourced[Any]:
    row = next(row for row in _table() if config.callee in row["configs"])
    place = Origin(config.callee.rpartition(".")[2], config.origin.path, config.origin.line)
    words: dict[str, int] = {}
    told: list[Origin] = []
    for word, (name, default) in row["words"].items():
        items = config.arguments.get(name, ()) if name else ()
        known = {item.value for item in items if isinstance(item, Known)}
        hidden = next((item.reason for item in items if isinstance(item, Unseen)), "")
        if hidden or len(known) > 1 or any(isinstance(item, Ref) for item in items):
            return Sourced(Unknown(f"{name}: {hidden or 'several values'}"), place)
        value: object = next(iter(known), None)
        if value is None:
            value = _default(default, words)
        elif items:
            told.append(Origin(f"{name} {value}", items[0].origin.path, items[0].origin.line))
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 10**7:
            return Sourced(Unknown(f"{name} {str(value)[:30]!r} is not a size"), place)
        words[word] = value
    return Sourced(words, told[0] if told else place)


def _default(default: object, words: Mapping[str, int]) -> object:
    if default == "4*hidden":
        return 4 * words["hidden"]
    return words.get(default, 0) if isinstance(default, str) else default
