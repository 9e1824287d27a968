"""What the calls of a script say about the run: rows of ``frameworks.toml`` applied to call sites.

Gathering is mechanical; what the facts mean together (weights and compute dtype -> precision) is in `script`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from analyzer.api import Argument, CallSite, Known, Ref, Unseen
from analyzer.api import Origin as Place
from estimator.resolve import rows
from estimator.sourced import Origin, Sourced, Unknown
from estimator.vocabulary import implied, word_for_field

DTYPE_FACTS = frozenset({"weights_dtype", "compute_dtype"})
PLAIN_FACTS = frozenset({"momentum", "new_tokens", "deepspeed_config", "is_trained", "devices"})


def table() -> Mapping[str, Any]:
    """``frameworks.toml``."""
    return rows.table("frameworks")


@dataclass(slots=True)
class Facts:
    """Everything the calls say: candidates per field (by rank, then in program order), and kinds of evidence."""

    found: dict[str, list[tuple[int, Sourced[Any]]]] = field(default_factory=dict)
    marks: dict[str, Origin] = field(default_factory=dict)
    loaders: list[tuple[bool, tuple[Sourced[Any], ...]]] = field(default_factory=list)
    spoken: set[str] = field(default_factory=set)
    silent: dict[str, Origin] = field(default_factory=dict)
    """Arguments that one call gives and the first that leaves them out: no call speaks for another (`is_each_call`)."""

    def add(self, name: str, value: Sourced[Any], rank: int = 0) -> None:
        """One candidate for a field; a smaller `rank` is the better witness."""
        self.found.setdefault(name, []).append((rank, value))

    def candidates(self, name: str) -> list[Sourced[Any]]:
        """The candidates of the best rank, the given ones before defaults of a library."""
        entries = self.found.get(name, [])
        best = min((rank for rank, _ in entries), default=0)
        return [value for rank, value in entries if rank == best]

    def one(self, name: str) -> Sourced[Any] | None:
        """The value of a field: several different ones are unknown, with all of them plausible."""
        return joined(self.candidates(name))


def joined(values: Iterable[Sourced[Any]]) -> Sourced[Any] | None:
    """One value out of those that may hold; None without any."""
    items = list(values)
    known: dict[Any, Sourced[Any]] = {}
    for item in items:
        if item.is_known:
            known.setdefault(item.value, item)
    if not items:
        return None
    if not known or len(known) == len(items) == 1:
        return items[0]
    if len(known) == 1 and all(item.is_known for item in items):
        return next(iter(known.values()))
    options = sorted(known, key=lambda value: (isinstance(value, str), value))
    shown = " or ".join(str(option) for option in options)
    hidden = next((item.value.reason for item in items if isinstance(item.value, Unknown)), "")
    reason = f"{shown}, or {hidden}" if hidden else f"{shown}: the code does not decide statically"
    plausible = () if hidden else tuple(options)
    return Sourced(Unknown(reason, plausible), next(iter(known.values())).origin)


def callees() -> frozenset[str]:
    """Every name the table asks for."""
    return frozenset(name for row in table()["callee"] for name in row["names"])


def gather(sites: Iterable[CallSite]) -> Facts:
    """Apply every row to every call."""
    facts = Facts()
    for site in sites:
        for row in table()["callee"]:
            if _is_meant(site, row):
                _apply(site, row, facts)
    return facts


def _names(site: CallSite) -> list[str]:
    """The callee, and the receiver with the method behind it (``transformers.AutoModel.from_pretrained``)."""
    method = site.callee.rsplit(".", 1)[-1]
    receivers = [item.name for item in site.receiver if isinstance(item, Ref)]
    return [site.callee, *(f"{name}.{method}" for name in receivers)]


def _matches(names: Iterable[str], patterns: Iterable[str]) -> bool:
    wanted = list(patterns)
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in wanted)


def _is_meant(site: CallSite, row: Mapping[str, Any]) -> bool:
    names = _names(site)
    if not _matches(names, row["names"]) or _matches(names, row.get("exclude", ())):
        return False
    if "only" in row and not _matches(names, row["only"]):
        return False
    return "receivers" not in row or _matches((n.rsplit(".", 1)[0] for n in names), row["receivers"])


def _apply(site: CallSite, row: Mapping[str, Any], facts: Facts) -> None:
    place = Origin(site.origin.text or site.callee.removeprefix("*."), site.origin.path, site.origin.line)
    for mark in row.get("marks", ()):
        facts.marks.setdefault(mark, place)
    for value in _named_by_callee(site, row, place):
        facts.add("model", value)
    for name, value in row.get("sets", {}).items():
        said = parsed(name, value) if isinstance(value, list) else value
        facts.add(name, Sourced(said, place), int(row.get("rank", 0)))
    for rule in row.get("arguments", ()):
        values = _argument(site, rule)
        for also, value in _implied(site, rule):
            facts.add(also, value)
        if rule.get("is_each_call"):
            if values:
                facts.spoken.add(rule["field"])
            else:
                facts.silent.setdefault(rule["field"], place)
        if "loader" in row.get("marks", ()) and rule["field"] == "micro_batch":
            facts.loaders.append((_is_shuffled(site), tuple(values)))
        else:
            _add(site, rule, values, facts)


def _add(site: CallSite, rule: Mapping[str, Any], values: list[Sourced[Any]], facts: Facts) -> None:
    for value in values:
        is_default = value.origin.text.startswith("default of ")
        rank = rule["default_rank"] if is_default and "default_rank" in rule else rule.get("rank", 0)
        facts.add(rule["field"], value, int(rank))
    if values and rule.get("is_bound"):
        facts.add("packing", _filling(site, rule, values[0].origin), int(rule.get("rank", 0)) + 1)


def _filling(site: CallSite, rule: Mapping[str, Any], place: Origin) -> Sourced[Any]:
    """Whether samples are as long as the bound that `rule` reads: only where the call pads them to it."""
    for name, wanted in rule.get("filled", {}).items():
        given = site.arguments.get(name, ())
        values = {item.value if isinstance(item, Known) else None for item in given}
        if values == {wanted}:
            return Sourced(True, replace(to_origin(given[0].origin), text=f"{name}={wanted!r}"))
        if wanted in values or None in values:
            reason = f"{name} is not known: samples may be shorter than {rule['names'][0]}"
            return Sourced(Unknown(reason, (False, True)), to_origin(given[0].origin))
    return Sourced(False, not_filled(rule["names"][0], place))


def not_filled(name: str, place: Origin) -> Origin:
    """Where a length was read that samples need not have."""
    return replace(place, text=f"{name} bounds the samples, nothing fills them up to it")


def _named_by_callee(site: CallSite, row: Mapping[str, Any], place: Origin) -> Iterator[Sourced[Any]]:
    """The model that a function is called after, alone or over the encoder that an argument names."""
    name = site.callee.rpartition(".")[2]
    if row.get("names_model"):
        yield Sourced(name, place)
    for value in _argument(site, row["names_model_with"]) if "names_model_with" in row else ():
        yield replace(value, value=f"{name.lower()}_{value.value}") if value.is_known else value


def _implied(site: CallSite, rule: Mapping[str, Any]) -> Iterator[tuple[str, Sourced[Any]]]:
    """What the spelling of an argument says beside its field (``optim="adamw_torch_fused"``)."""
    given = next((site.arguments[name] for name in rule["names"] if name in site.arguments), ())
    for item in given:
        if isinstance(item, Known) and (also := implied(rule["field"], item.value)) is not None:
            yield also[0], Sourced(also[1], to_origin(item.origin))


def _is_shuffled(site: CallSite) -> bool:
    shuffle = site.arguments.get("shuffle", site.arguments.get("2", ()))
    if any(isinstance(item, Known) and item.value is True for item in shuffle):
        return True
    return any(not (isinstance(item, Known) and item.value is None) for item in site.arguments.get("sampler", ()))


def _argument(site: CallSite, rule: Mapping[str, Any]) -> list[Sourced[Any]]:
    given = next((site.arguments[name] for name in rule["names"] if name in site.arguments), ())
    if not given and site.is_open and not rule["names"][0].isdigit():
        reason = f"{rule['names'][0]} may be among the arguments that are unpacked here"
        return [Sourced(Unknown(reason), Origin("", site.origin.path, site.origin.line))]
    values = [value for item in given if (value := translate(rule, item)) is not None]
    if values or "default" not in rule:
        return values
    is_off = any(isinstance(item, Known) and item.value is False for item in given)
    if is_off and ("truthy" not in rule or rule.get("is_silent_when_off")):
        return values
    place = site.origin
    shown = f"default of {site.callee.rsplit('.', 1)[-1]}: {rule['default']}"
    default = parsed(rule["field"], rule["default"]) if rule["field"] == "image_size" else rule["default"]
    return [Sourced(default, Origin(shown, place.path, place.line))]


def translate(rule: Mapping[str, Any], item: Argument) -> Sourced[Any] | None:
    """An argument as the value of its field; None where it says "not given" (None, or False for a switch)."""
    if rule.get("is_only_dtype") and not (isinstance(item, Ref) and item.name in table()["dtypes"]):
        return None
    if isinstance(item, Unseen):
        return Sourced(Unknown(item.reason), to_origin(item.origin))
    if isinstance(item, Ref):
        listed = _listed(item)
        if listed is None:
            return _from_name(rule, item)
        item = listed
    if item.value is None:
        return None
    value = _value(rule, item.value)
    if value is _OFF:
        return None
    overrides = tuple(sourced for other in item.overrides if (sourced := translate(rule, other)) is not None)
    return Sourced(value, to_origin(item.origin), overrides)


def _listed(item: Ref) -> Known | None:
    """A list of constants as a tuple of them; None where some of its items are not in the text or may differ."""
    if item.name != "list" or not item.items:
        return None
    values = [value for _, cases in item.items for value in cases if isinstance(value, Known)]
    is_whole = all(len(cases) == 1 for _, cases in item.items) and len(values) == len(item.items)
    return Known(tuple(each.value for each in values), item.origin) if is_whole else None


_OFF = object()
_CONTAINERS = frozenset({"list", "dict", "set"})


def _from_name(rule: Mapping[str, Any], item: Ref) -> Sourced[Any] | None:
    origin = Origin(item.origin.text or item.name, item.origin.path, item.origin.line)
    member = item.name.rsplit(".", 1)[-1]  # an enumeration's member (ShardingStrategy.FULL_SHARD)
    if member in rule.get("values", {}):
        return Sourced(rule["values"][member], origin)
    if rule["field"] in DTYPE_FACTS and item.name in table()["dtypes"]:
        return Sourced(table()["dtypes"][item.name], origin)
    is_list = item.name in _CONTAINERS
    what = f"a {item.name} whose items are not followed" if is_list else f"{item.name}, not a constant"
    return Sourced(Unknown(f"{rule['names'][-1]} is {what}"), origin)


def _value(rule: Mapping[str, Any], value: Any) -> Any:
    name = rule["field"]
    if "words" in rule:
        return _by_word(rule, value)
    if "truthy" in rule:
        return rule["truthy"] if _is_true(value) else _OFF
    if "values" in rule:
        return rule["values"].get(str(value), Unknown(f"{str(value)[:40]!r} is not a known {name}"))
    if name in DTYPE_FACTS:
        return table()["dtypes"].get(str(value), Unknown(f"{str(value)[:40]!r} is not a dtype we know"))
    if name in PLAIN_FACTS:
        return value
    return parsed(name, value)


def _by_word(rule: Mapping[str, Any], value: Any) -> Any:
    """What the first word that the rule knows means (``full_shard auto_wrap``); of a mere switch its `truthy`."""
    if not _is_true(value):
        return _OFF
    words = re.findall(r"[a-z_0-9]+", str(value).lower())
    known = next((rule["words"][word] for word in words if word in rule["words"]), None)
    if known is not None:
        return known
    if words == ["true"]:
        return rule.get("truthy", _OFF)
    return rule.get("otherwise", Unknown(f"{str(value)[:40]!r} is not a known {rule['field']}"))


def _is_true(value: object) -> bool:
    return str(value).lower() not in {"false", "0", "", "no", "none", "()"}


def parsed(name: str, value: Any) -> Any:
    """A value in the vocabulary's spelling, or why it is none."""
    word = word_for_field(name)
    if word is None:
        return value
    try:
        return word.parse(value)
    except ValueError as error:
        return Unknown(f"{str(value)[:40]!r}: {error}")


def to_origin(place: Place) -> Origin:
    """An analyzer's place as an origin."""
    return Origin(place.text, place.path, place.line)
