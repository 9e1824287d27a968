"""The facts of a recipe that no single key decides: precision, method, sharding, accumulation."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analyzer.api import Files
from estimator.launch.base import Arg, LaunchConfig, not_known
from estimator.launch.documents import Node
from estimator.resolve import rows
from estimator.resolve.configfiles import deepspeed_facts
from estimator.sourced import Origin, Sourced, Unknown
from estimator.vocabulary import implied, word_for_field

_ADAPTERS = {"lora", "qlora", "other"}
_STRATEGIES = {
    "auto": None, "ddp": "ddp", "ddp-find-unused-parameters-true": "ddp", "ddp-spawn": "ddp", "fsdp": "fsdp",
    "deepspeed": "zero2", "deepspeed-stage-1": "zero1", "deepspeed-stage-2": "zero2", "deepspeed-stage-3": "zero3",
    "deepspeed-stage-2-offload": "zero2", "deepspeed-stage-3-offload": "zero3", "ddpstrategy": "ddp",
    "fsdpstrategy": "fsdp", "deepspeedstrategy": "zero2", "singledevicestrategy": "none",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recipe:
    """A file of a known program, and what the command line sets on top (`given`, by dotted key). `missing` says why
    the file is not here: then only what is given is known, and no default holds."""

    row: Mapping[str, Any]
    root: Node
    given: Mapping[str, Arg]
    script: Arg | None = None
    missing: str = ""

    @property
    def name(self) -> str:
        """The program."""
        return str(self.row["name"])


def whole(sourced: Sourced[Any] | None) -> Sourced[Any] | None:
    """A device count: a number, the length of a list of indices, or unknown (``auto``)."""
    if sourced is None or isinstance(sourced.value, bool):
        return None
    if isinstance(sourced.value, tuple):
        return Sourced(len(sourced.value), sourced.origin)
    text = str(sourced.value)
    if re.fullmatch(r"\d{1,5}", text) and int(text) > 0:
        return Sourced(int(text), sourced.origin)
    if re.fullmatch(r"(\d+,)+\d*", text):
        return Sourced(len([item for item in text.split(",") if item]), sourced.origin)
    return not_known(f"{sourced.origin.text}: as many as the machine has", sourced.origin)


def combined(
    recipe: Recipe, facts: dict[str, Sourced[Any]], files: Files, launch: LaunchConfig
) -> Iterator[tuple[str, Sourced[Any]]]:
    """The fields of a run that `facts` decide, some of them together."""
    engine = _engine(facts, files, launch)
    place = Origin(f"{recipe.name} trains", recipe.root.path, 0)
    yield "task", Sourced("train", place)
    for name, sourced in facts.items():
        word = word_for_field(name)
        if word is not None and word.name == name and name not in {"sharding", "lora_targets"}:
            yield name, _worded(name, sourced)
            if (also := implied(name, sourced.value)) is not None and also[0] not in facts:
                yield also[0], Sourced(also[1], sourced.origin)
    yield from _precision(facts, engine)
    yield from _method(facts)
    yield from _sharding(recipe, facts, engine)
    yield from _accumulation(recipe, facts)
    yield from _micro_batch(facts)
    for name in ("micro_batch", "grad_accum"):
        if name in engine and (name not in facts or facts[name].origin.text.startswith("default of")):
            yield name, engine[name]


def _engine(facts: Mapping[str, Sourced[Any]], files: Files, launch: LaunchConfig) -> dict[str, Sourced[Any]]:
    named = facts.get("deepspeed")
    if named is None or not isinstance(named.value, str):
        return {}
    arg = Arg(named.value, named.origin.path, named.origin.line)
    found = deepspeed_facts(arg, files, launch.command.cwd, named.origin.path)
    if found:
        return found
    for ending, (sharding, offload) in rows.table("recipes")["builtin_deepspeed"].items():
        if (
            f"/{named.value}".endswith(f"/{ending}")
            and "axolotl" in launch.command.script.text + launch.command.launcher
        ):
            origin = replace(named.origin, text=f"{named.value}, which axolotl brings along")
            return {"sharding": Sourced(sharding, origin), "offload": Sourced(offload, origin)}
    stage = re.search(r"zero[-_]?stage[-_]?([0-3])|zero[-_]?([0-3])|z([0-3])_", named.value.lower())
    reason = f"{named.value} is not in the repository"
    guess = [f"zero{next(filter(None, stage.groups()))}"] if stage else ["zero1", "zero2", "zero3"]
    plausible = tuple("ddp" if item == "zero0" else item for item in guess)
    return {"sharding": Sourced(Unknown(reason, plausible), named.origin), "offload": not_known(reason, named.origin)}


def _worded(name: str, sourced: Sourced[Any]) -> Sourced[Any]:
    """A value in the vocabulary's spelling; unknown, with the text, where it has none."""
    if isinstance(sourced.value, Unknown):
        return sourced
    word = word_for_field(name)
    assert word is not None
    value = sourced.value
    if name == "optimizer" and isinstance(value, str):
        value = re.sub(r"^(default|fused)_", "", value.rsplit(".", 1)[-1])
    if isinstance(value, str) and re.fullmatch(r"\d+", value):
        value = int(value)
    try:
        return Sourced(word.parse(value), sourced.origin)
    except ValueError as error:
        reason = "is none that we can count" if word.is_open else str(error)
        return not_known(f"{name} {str(sourced.value)[:60]!r} {reason}"[:120], sourced.origin)


def _precision(
    facts: Mapping[str, Sourced[Any]], engine: Mapping[str, Sourced[Any]]
) -> Iterator[tuple[str, Sourced[Any]]]:
    if "precision" in engine:
        yield "precision", engine["precision"]
        return
    compute, weights = facts.get("compute"), facts.get("weights")
    if compute is None or isinstance(compute.value, Unknown):
        if weights is not None and isinstance(weights.value, str):
            yield "precision", Sourced("fp32" if weights.value == "fp32" else f"pure-{weights.value}", weights.origin)
        return
    value = str(compute.value)
    if value in {"bf16", "fp16"}:
        is_master = str(engine["sharding"].value).startswith("zero") if "sharding" in engine else False
        is_pure = weights is not None and weights.value == value
        value = f"{value}-master" if is_master else f"pure-{value}" if is_pure else f"amp-{value}"
    yield "precision", Sourced(value, compute.origin)


def _method(facts: Mapping[str, Sourced[Any]]) -> Iterator[tuple[str, Sourced[Any]]]:
    adapter, bits = facts.get("adapter"), facts.get("bits")
    if adapter is None:
        return
    method = adapter.value
    if method == "qlora" or (method == "lora" and bits is not None and bits.value == "nf4"):
        yield "method", Sourced("qlora", adapter.origin)
        yield "quantization", bits if bits is not None else Sourced("nf4", adapter.origin)
    else:
        yield "method", adapter
        if bits is not None and method in _ADAPTERS:
            yield "quantization", bits
    linear = facts.get("lora_linear")
    targets = facts.get("lora_targets")
    if linear is not None and str(linear.value).lower() == "true":
        yield "lora_targets", Sourced(("all-linear",), linear.origin)
    elif targets is not None and method in _ADAPTERS and targets.value:
        names = targets.value if isinstance(targets.value, tuple) else tuple(str(targets.value).split(","))
        yield "lora_targets", Sourced(("all-linear",) if names == ("all",) else names, targets.origin)


def _sharding(
    recipe: Recipe, facts: Mapping[str, Sourced[Any]], engine: Mapping[str, Sourced[Any]]
) -> Iterator[tuple[str, Sourced[Any]]]:
    if "sharding" in engine:
        yield "sharding", engine["sharding"]
        yield "offload", engine.get("offload", not_known("the DeepSpeed file does not say"))
        return
    strategy = facts.get("strategy")
    if strategy is not None:
        found = _strategy(strategy, facts.get("zero_stage"))
        if found is not None:
            yield "sharding", found
            if found.value in {"ddp", "none"}:
                yield "offload", Sourced("none", found.origin)
            return
    if "sharding" in facts:
        yield "sharding", _worded("sharding", facts["sharding"])
        if "offload" not in facts:
            yield "offload", Sourced("none", Origin("nothing is offloaded", recipe.root.path, 0))
        return
    fsdp = facts.get("fsdp")
    if fsdp is not None and str(fsdp.value).lower() not in {"", "false", "none"}:
        yield "sharding", Sourced("fsdp", fsdp.origin)
        yield "offload", facts.get("offload_fsdp", Sourced("none", fsdp.origin))
        return
    yield from _by_devices(recipe, facts)


def _by_devices(recipe: Recipe, facts: Mapping[str, Sourced[Any]]) -> Iterator[tuple[str, Sourced[Any]]]:
    """What the number of devices, or the program that was started, says where no key does."""
    started = _by_program(recipe)
    if started is not None:
        yield "sharding", started
        if not recipe.missing or "offload_fsdp" in facts or started.value == "none":
            yield "offload", facts.get("offload_fsdp", Sourced("none", started.origin))
        return
    if recipe.missing:
        return
    devices, nodes = whole(facts.get("devices")), whole(facts.get("num_nodes"))
    is_alone = devices is not None and devices.value == 1 and (nodes is None or nodes.value == 1)
    copies = recipe.row.get("replicates")
    if devices is not None and is_alone:
        yield "sharding", Sourced("none", devices.origin)
    elif devices is not None and devices.is_known and copies:
        yield "sharding", Sourced("ddp", replace(devices.origin, text=copies))
    several = recipe.row.get("several_devices")
    if devices is not None and several is not None and devices.is_known:
        if not is_alone:
            yield "sharding", Sourced(several, devices.origin)
        recomputed = Origin(
            f"{recipe.name} recomputes blocks with {several.upper()}, and only then", recipe.root.path, 0
        )
        yield "grad_checkpointing", Sourced("none" if is_alone else "full", recomputed)
    either = tuple(recipe.row.get("unless_sharded", ()))
    if either and devices is None:
        reason = f"neither DeepSpeed nor FSDP is asked for: {either[0]} on one GPU, {either[1]} on several"
        yield "sharding", Sourced(Unknown(reason, either), Origin("", recipe.root.path, 0))
    if "offload" not in facts:
        yield "offload", Sourced("none", Origin("nothing asks for DeepSpeed or FSDP", recipe.root.path, 0))


def _by_program(recipe: Recipe) -> Sourced[Any] | None:
    """How the started program shards, where the table knows it by name (torchtune's recipes)."""
    for pattern, sharding in recipe.row.get("programs", {}).items():
        if recipe.script is not None and fnmatch.fnmatchcase(recipe.script.text, pattern):
            return Sourced(sharding, recipe.script.origin())
    return None


def _strategy(strategy: Sourced[Any], stage: Sourced[Any] | None) -> Sourced[Any] | None:
    if stage is not None and str(stage.value) in {"0", "1", "2", "3"}:
        return Sourced("ddp" if str(stage.value) == "0" else f"zero{stage.value}", stage.origin)
    name = str(strategy.value).rsplit(".", 1)[-1].lower().replace("_", "-")
    if name not in _STRATEGIES:
        return not_known(f"strategy {str(strategy.value)[:60]}", strategy.origin)
    found = _STRATEGIES[name]
    return Sourced(found, strategy.origin) if found else None


def _micro_batch(facts: Mapping[str, Sourced[Any]]) -> Iterator[tuple[str, Sourced[Any]]]:
    """Samples of a micro-batch that is given in tokens."""
    tokens, length = whole(facts.get("micro_tokens")), whole(facts.get("seq_len"))
    if tokens is None:
        return
    parts = (tokens.value, length.value if length is not None else None)
    if isinstance(parts[0], int) and isinstance(parts[1], int) and parts[0] % parts[1] == 0:
        words = f"{parts[0]} tokens in samples of {parts[1]}"
        yield "micro_batch", Sourced(parts[0] // parts[1], replace(tokens.origin, text=words))
        return
    yield "micro_batch", not_known("the tokens of a micro-batch are no whole number of samples", tokens.origin)


def _accumulation(recipe: Recipe, facts: Mapping[str, Sourced[Any]]) -> Iterator[tuple[str, Sourced[Any]]]:
    """Global batch = micro-batch x accumulation x processes, where the other three are known."""
    total_batch = facts.get("global_batch")
    parts: Sequence[Sourced[Any] | None] = (
        whole(total_batch), whole(facts.get("micro_batch")), whole(facts.get("devices")), whole(facts.get("num_nodes")),
    )  # fmt: skip
    numbers = [part.value for part in parts if part is not None and isinstance(part.value, int)]
    if total_batch is None or len(numbers) != len(parts):
        return
    total, micro, devices, nodes = numbers
    if total % (micro * devices * nodes) == 0:
        words = f"global batch {total} over micro-batch {micro} and {devices * nodes} processes"
        yield "grad_accum", Sourced(total // (micro * devices * nodes), replace(total_batch.origin, text=words))
