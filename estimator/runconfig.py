"""The inputs of an estimate: one value per word of the vocabulary, each with its origin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from analyzer.errors import InputError
from estimator.models.local import LocalNet
from estimator.sourced import Origin, Sourced, Unknown
from estimator.units import GIB
from estimator.vocabulary import NOTES, Word, implied, word_for_field

NOT_GIVEN = "not given"
NOT_SAID = "null: somebody knows it, the document does not say"
_MAX_ORIGIN = 400  # characters; a chain of three overrides has about 150
UNSET: Sourced[Any] = Sourced(Unknown(NOT_GIVEN), Origin(NOT_GIVEN))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """What runs, how, and on what. Every field may be unknown; `gpu_memory` is in bytes, `num_gpus` is per node.

    `not_understood` names the fields of a document that no word of ours covers, with the reason: they appear in the
    answer's ``unknowns``, because whatever they say is not in the number.
    """

    model: Sourced[str] = UNSET
    params: Sourced[int] = UNSET
    category: Sourced[str] = UNSET
    arch: Sourced[Mapping[str, int | bool]] = UNSET
    network: Sourced[LocalNet] = UNSET
    task: Sourced[str] = UNSET
    micro_batch: Sourced[int] = UNSET
    grad_accum: Sourced[int] = UNSET
    seq_len: Sourced[int] = UNSET
    packing: Sourced[bool] = UNSET
    max_context: Sourced[int] = UNSET
    image_size: Sourced[tuple[int, int]] = UNSET
    frames: Sourced[int] = UNSET
    precision: Sourced[str] = UNSET
    optimizer: Sourced[str] = UNSET
    optimizer_impl: Sourced[str] = UNSET
    method: Sourced[str] = UNSET
    lora_rank: Sourced[int] = UNSET
    lora_targets: Sourced[tuple[str, ...]] = UNSET
    dora: Sourced[bool] = UNSET
    trained_layers: Sourced[int] = UNSET
    objective: Sourced[str] = UNSET
    companion_params: Sourced[int] = UNSET
    ema: Sourced[bool] = UNSET
    engine_share: Sourced[float] = UNSET
    quantization: Sourced[str] = UNSET
    sharding: Sourced[str] = UNSET
    bucket_view: Sourced[bool] = UNSET
    sharded_load: Sourced[bool] = UNSET
    splits_batch: Sourced[bool] = UNSET
    sharding_degree: Sourced[int] = UNSET
    tp_degree: Sourced[int] = UNSET
    pp_degree: Sourced[int] = UNSET
    cp_degree: Sourced[int] = UNSET
    sp_degree: Sourced[int] = UNSET
    ep_degree: Sourced[int] = UNSET
    num_gpus: Sourced[int] = UNSET
    nodes: Sourced[int] = UNSET
    offload: Sourced[str] = UNSET
    grad_checkpointing: Sourced[str] = UNSET
    attention: Sourced[str] = UNSET
    compile: Sourced[bool] = UNSET
    optimizer_in_backward: Sourced[bool] = UNSET
    loss_impl: Sourced[str] = UNSET
    kv_cache_dtype: Sourced[str] = UNSET
    gpu: Sourced[tuple[str, ...]] = UNSET
    gpu_memory: Sourced[int] = UNSET
    not_understood: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_document(
        cls, document: Mapping[str, Any], origin: Origin, origins: Mapping[str, Origin] | None = None
    ) -> RunConfig:
        """Read field names and spellings of the vocabulary, of the measured rows and of command-line habit.

        `origins` gives single fields an origin of their own. An entry of ``preflight launches`` (with ``run_config``
        and ``target`` inside) is accepted too. Raises `InputError` naming the field for a value no run can have.
        """
        if not isinstance(document, Mapping):
            raise InputError(f"{origin}: a run config is an object of fields, not {type(document).__name__}")
        flat, spoken = _flatten(document), {**_spoken(document), **(origins or {})}
        values: dict[str, Sourced[Any]] = {}
        strange: list[tuple[str, str]] = []
        for name, value in flat.items():
            _read_field(str(name), value, spoken.get(str(name), origin), values, strange)
        for name, reason in _reasons(document).items():
            if name in values and not values[name].is_known:
                values[name] = Sourced(Unknown(reason), origin)
        return cls(**values, not_understood=tuple(strange))

    def to_document(self) -> dict[str, Any]:
        """The fields by name, in JSON types; absent where not given, null where unknown. Reads back as it was."""
        document: dict[str, Any] = {}
        for name, sourced in self.words().items():
            value = sourced.value
            if sourced != UNSET:
                document[name] = None if isinstance(value, Unknown) else _plain(name, value)
        for name, reason in self.not_understood:
            document.setdefault(name, reason)
        return document

    def to_entry(self) -> dict[str, Any]:
        """The document together with the origin of every value and the reason for every null; reads back as it was."""
        known = {name: sourced.describe() for name, sourced in self.words().items() if sourced.is_known}
        unknown = [
            {"field": name, "reason": sourced.value.reason}
            for name, sourced in self.words().items()
            if isinstance(sourced.value, Unknown) and sourced != UNSET
        ]
        return {**self.to_document(), "origins": known, "unknowns": unknown}

    def words(self) -> dict[str, Sourced[Any]]:
        """Every word and its sourced value, in the order of the vocabulary."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "not_understood"}

    def overridden_by(self, other: RunConfig) -> RunConfig:
        """`other` where it knows a value (remembering what it overrides), else this one."""
        changes: dict[str, Any] = {}
        for name, new in other.words().items():
            old: Sourced[Any] = getattr(self, name)
            if new.is_known:
                overridden = (*new.overrides, old, *old.overrides) if old.is_known else new.overrides
                changes[name] = Sourced(new.value, new.origin, overridden)
            elif not old.is_known and new != UNSET:
                changes[name] = new
        strange = dict.fromkeys((*self.not_understood, *other.not_understood))
        return replace(self, **changes, not_understood=tuple(strange))


def _spoken(document: Mapping[str, Any]) -> dict[str, Origin]:
    """The ``origins`` of a document that Preflight printed, word for word: a chain of overrides stays one."""
    origins = document.get("origins")
    if not isinstance(origins, Mapping):
        return {}
    return {str(name): Origin(" ".join(str(text).split())[:_MAX_ORIGIN]) for name, text in origins.items()}


def _reasons(document: Mapping[str, Any]) -> dict[str, str]:
    """Why fields of a document that Preflight printed are null."""
    unknowns = document.get("unknowns")
    entries = [item for item in unknowns if isinstance(item, Mapping)] if isinstance(unknowns, list) else []
    return {
        str(item["field"]): " ".join(str(item["reason"]).split())[:_MAX_ORIGIN]
        for item in entries
        if item.get("field") and item.get("reason")
    }


def _flatten(document: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of ``preflight launches`` keeps the run inside ``run_config`` and the hardware inside ``target``."""
    if not isinstance(document.get("run_config"), Mapping):
        return {str(key): value for key, value in document.items()}
    flat = dict(document["run_config"])
    target = document.get("target")
    if isinstance(target, Mapping):
        for ours, theirs in (("gpu", "gpu"), ("num_gpus", "gpus_per_node"), ("nodes", "nodes")):
            if flat.get(ours) is None and target.get(theirs) is not None:
                flat[ours] = target[theirs]
    return flat


def _read_field(
    name: str, value: object, origin: Origin, values: dict[str, Sourced[Any]], strange: list[tuple[str, str]]
) -> None:
    word = word_for_field(name)
    if word is None:
        if name not in NOTES and value not in (None, "", [], {}):
            strange.append((name, "no such field in the vocabulary"))
        return
    if value == {} or value == []:
        return
    if value is None or value == "" or (word.name in ("model", "gpu") and value in ("None", "null", "unknown")):
        values.setdefault("params" if word.name == "params_b" else word.name, Sourced(Unknown(NOT_SAID), origin))
        return
    if word.name == "precision" and _is_quantization(value):
        values.setdefault("quantization", Sourced(_parse(_word("quantization"), value, origin), origin))
        return
    if word.name == "image_size" and len(sides := _sides(value)) == 3:  # of a video: frames, height and width
        values.setdefault("frames", Sourced(_parse(_word("frames"), sides[0], origin), origin))
        value = sides[1:]
    if (also := implied(word.name, value)) is not None and not (also[0] in values and values[also[0]].is_known):
        values[also[0]] = Sourced(also[1], origin)
    if word.is_open and isinstance(value, str):
        values[word.name] = Sourced(_lenient(word, value, strange), origin)
        return
    key = "params" if word.name == "params_b" else word.name
    if word.name == "params_b" and "params" in values and values["params"].is_known:
        return
    values[key] = Sourced(_parse(word, value, origin), origin)


def _sides(value: object) -> list[object]:
    parts = re.split(r"\s*[x×,]\s*", value.strip()) if isinstance(value, str) else value
    return list(parts) if isinstance(parts, (list, tuple)) else []


def _word(name: str) -> Word:
    word = word_for_field(name)
    assert word is not None
    return word


def _is_quantization(value: object) -> bool:
    text = str(value).lower()
    return text.startswith(("nf4", "fp4", "int4", "int8", "mxfp4", "awq", "gptq", "bnb-", "4bit", "8bit"))


def _lenient(word: Word, value: str, strange: list[tuple[str, str]]) -> Any:
    """Open vocabularies: an optimizer or offload we never heard of is unknown, which is an answer, not an error."""
    try:
        return word.parse(value)
    except ValueError:
        reason = f"{value[:60]!r} is not modelled"
        if "other" not in word.schema["enum"]:
            return Unknown(reason)
        strange.append((word.name, reason))
        return "other"


def _parse(word: Word, value: object, origin: Origin) -> Any:
    if word.name == "quantization" and isinstance(value, str):
        value = value.lower().removesuffix("-dq")
    try:
        return word.parse(value)
    except ValueError as error:
        shown = str(value)[:60]
        raise InputError(f"{origin}: {word.name} {error}, not {shown!r}") from None


def _plain(name: str, value: Any) -> Any:
    if name == "gpu_memory":
        return round(value / GIB, 4)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, LocalNet):
        return value.to_document()
    return dict(value) if isinstance(value, Mapping) else value
