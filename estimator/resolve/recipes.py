"""Configuration files that are a whole training run (Axolotl, LLaMA-Factory, torchtune, litgpt, torchtitan, …).

``recipes.toml`` says what their keys mean; this module finds the file a command names, lets the command line override
it, and combines the facts that no single key decides: precision, method, sharding, accumulation.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analyzer.api import Files
from estimator.launch.base import Arg, Command, LaunchConfig, Processes, not_known
from estimator.launch.documents import Node, UnreadableDocument, documents
from estimator.launch.places import find_named
from estimator.resolve import rows
from estimator.resolve.command import table as launchers
from estimator.resolve.configfiles import deepspeed_facts
from estimator.resolve.hydra import resolved
from estimator.resolve.registries import CALLEE, configuration
from estimator.sourced import Origin, Sourced, Unknown
from estimator.vocabulary import implied, word_for_field

SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_CONFIG_OPTIONS = ("--config", "--config-file", "--job.config-file", "--job.config_file", "-c")
_HIDDEN = ("model", "micro_batch", "grad_accum", "seq_len", "precision", "optimizer", "method", "grad_checkpointing",
           "sharding", "offload")  # fmt: skip
NOT_COUNTED = "not counted: "
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


def table() -> list[Mapping[str, Any]]:
    """The rows of ``recipes.toml``."""
    found: list[Mapping[str, Any]] = rows.table("recipes")["recipe"]
    return found


def kind_of(root: Node, only: str = "") -> Mapping[str, Any] | None:
    """Which program a document is for, by its keys; None for any other document."""
    for row in table():
        if (row["name"] != only) if only else row.get("is_composed", False):
            continue
        if row.get("is_arguments") or row.get("is_registry"):
            continue
        has_needed = all(root.get(key) is not None for key in row["needs"])
        is_forbidden = any(root.get(key) is not None for key in row.get("forbids", ()))
        if has_needed and not is_forbidden and any(root.get(key) is not None for key in row["any"]):
            return row
    return None


def recipe_of(files: Files, command: Command, near: str) -> Recipe | None:
    """The recipe a command starts; None for a command that starts a script of its own."""
    known: Mapping[str, Mapping[str, Any]] = {row["name"]: row for row in launchers()["launcher"]}
    row = known.get(command.launcher, {})
    program = row.get("recipe") or _program(command)
    named = list(_named_files(command))
    for arg in named:
        path = find_named(files, arg, command.cwd, near)
        source = files.read(path) if path is not None else None
        if path is None or source is None:
            continue
        try:
            root = next(iter(documents(path, source)), None)
        except UnreadableDocument:
            continue
        kind = kind_of(root, program) if root is not None else None
        if root is not None and kind is not None:
            return Recipe(kind, root, dict(_overrides(command)), command.script)
    return _registered(files, dict(_overrides(command)), program) or _by_command(command, program)


def _by_command(command: Command, program: str) -> Recipe | None:
    """What the options of a command say by themselves: all of it, or what they override in a file that is elsewhere."""
    row = next((row for row in table() if row["name"] == program and not row.get("is_registry")), None)
    if row is None:
        return None
    given = dict(_overrides(replace(command, argv=command.words)))  # a launcher may take an option it does not know
    root = Node(command.words[0].path, command.line, {})
    words = [command.words[0], command.script, *command.argv]
    pairs = list(itertools.pairwise(words))
    named = next((word for before, word in pairs if before.text in _CONFIG_OPTIONS), None)
    alone = [
        word for before, word in pairs
        if word.text.endswith(SUFFIXES) and not before.text.startswith("--") and "=" not in word.text
    ]  # fmt: skip
    named = named or next(iter(alone), None)
    if named is not None:
        reason = named.unknown or f"{named.text[:80]} is not in the repository"
        return Recipe(row, root, given, command.script, reason)
    return Recipe(row, root, given, command.script) if all(key in given for key in row["needs"]) else None


def _registered(files: Files, given: Mapping[str, Arg], program: str) -> Recipe | None:
    """The configuration that a command names as a function of a registry (``--module llama3 --config llama3_8b``)."""
    row = next((row for row in table() if row.get("is_registry") and row["name"] == program), None)
    module, name = given.get("module"), given.get("config")
    if row is None or module is None or name is None or not module.is_known or not name.is_known:
        return None
    root = configuration(files, module, name)
    return Recipe(row, root, given) if root is not None else None


def by_arguments(command: Command) -> Recipe | None:
    """The recipe that the options of a command are by themselves (Megatron-LM, verl)."""
    given = dict(_overrides(command))
    for row in table():
        is_forbidden = any(key in given for key in row.get("forbids", ()))
        is_meant = all(key in given for key in row["needs"]) and (
            not row["any"] or any(key in given for key in row["any"])
        )
        if row.get("is_arguments") and is_meant and not is_forbidden:
            return Recipe(row, Node(command.words[0].path, command.line, {}), given, command.script)
    return None


def starts_recipe(command: Command) -> bool:
    """Whether a command runs a program that takes a whole run from one file."""
    row: Mapping[str, Any] = next((row for row in launchers()["launcher"] if row["name"] == command.launcher), {})
    return bool(row.get("recipe") or _program(command))


def _program(command: Command) -> str:
    """The program whose module a command runs (``accelerate launch -m axolotl.cli.train``)."""
    if not command.is_module:
        return ""
    modules: Mapping[str, str] = launchers()["recipe_modules"]
    return next((name for module, name in modules.items() if command.script.text.startswith(module)), "")


def _named_files(command: Command) -> Iterator[Arg]:
    """Words of a command that name a configuration file."""
    words = [command.script, *command.argv, *command.options.values()]
    for index, word in enumerate(words):
        is_pair = word.text.startswith("--") and "=" in word.text
        name, text = word.text.partition("=")[::2] if is_pair else ("", word.text)
        if text.endswith(SUFFIXES):
            yield replace(word, text=text)
        elif name in _CONFIG_OPTIONS or (index and words[index - 1].text in _CONFIG_OPTIONS):
            yield replace(word, text=f"{text}.yaml")  # a name among the program's own configurations


def _overrides(command: Command) -> Iterator[tuple[str, Arg]]:
    """``--a.b 1``, ``--a_b=1`` and ``a.b=1`` of the command line, by key."""
    words = list(command.argv)
    for index, word in enumerate(words):
        name, has_value, value = word.text.partition("=")
        if has_value and re.fullmatch(r"(?:--|\+{1,2})?[A-Za-z_][\w.\-]*", name):
            yield _key(name), replace(word, text=value)
        elif word.text.startswith("--") and index + 1 < len(words) and not words[index + 1].text.startswith("--"):
            yield _key(word.text), words[index + 1]
        elif word.text.startswith("--"):
            yield _key(word.text), replace(word, text="true")


def _key(name: str) -> str:
    return name.lstrip("-+").replace("-", "_")


def enriched(files: Files, launch: LaunchConfig) -> LaunchConfig:
    """The launch with what its recipe says, the number of devices among it."""
    recipe = recipe_of(files, launch.command, launch.path) or by_arguments(launch.command)
    return with_recipe(files, launch, recipe) if recipe is not None else launch


def with_recipe(files: Files, launch: LaunchConfig, recipe: Recipe) -> LaunchConfig:
    """The launch with what `recipe` says."""
    facts = dict(_facts(recipe))
    fields = _whole_fields(recipe, facts, dict(_combined(recipe, facts, files, launch)))
    target, started = launch.target, launch.processes
    devices, nodes = whole(facts.get("devices")), whole(facts.get("num_nodes"))
    if devices is not None:
        target = replace(target, gpus_per_node=target.gpus_per_node if target.gpus_per_node.is_known else devices)
        started = Processes(per_node=devices, nodes=started.nodes)
    if nodes is not None:
        target = replace(target, nodes=target.nodes if target.nodes.is_known else nodes)
        started = Processes(per_node=started.per_node, nodes=nodes)
    return replace(launch, target=target, processes=started, recipe=fields, notes=(*launch.notes, *_uncounted(recipe)))


def _whole_fields(
    recipe: Recipe, facts: Mapping[str, Sourced[Any]], fields: dict[str, Sourced[Any]]
) -> dict[str, Sourced[Any]]:
    """The fields with what words of FSDP and a file that is elsewhere make of them."""
    shards = facts.get("fsdp")
    words = re.findall(r"[a-z_]+", str(shards.value).lower()) if shards is not None else []
    weaker = {"shard_grad_op": "zero2", "no_shard": "ddp"}
    spoken = next((Sourced(weaker[word], shards.origin) for word in words if shards and word in weaker), None)
    spoken = facts.get("reshard") or spoken
    if spoken is not None and fields["sharding"].value == "fsdp":
        fields["sharding"] = spoken
    if shards is not None and "offload" in words and "offload_fsdp" not in facts:
        fields["offload"] = Sourced("both", shards.origin)
    if recipe.missing:
        place = (recipe.script or Arg("", recipe.root.path, recipe.root.line)).origin()
        hidden: Sourced[Any] = Sourced(Unknown(recipe.missing), place)
        fields.update({name: hidden for name in _HIDDEN if name not in fields})
    return fields


def _uncounted(recipe: Recipe) -> Iterator[str]:
    """What else this program holds on the GPU, by the table."""
    for row in recipe.row.get("uncounted", ()):
        node, given = recipe.root.get(row["key"]), recipe.given.get(row["key"])
        text = given.text if given is not None else node.text if node is not None else ""
        if text and ("values" not in row or text.lower() in row["values"]):
            yield f"{NOT_COUNTED}{row['text']} ({row['key']}: {text[:40]})"


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


def _facts(recipe: Recipe) -> Iterator[tuple[str, Sourced[Any]]]:
    """Every field the table names, the first row that says something winning."""
    seen: set[str] = set()
    for row in recipe.row["fields"]:
        if row["field"] in seen:
            continue
        found = _read(recipe, row)
        if found is not None:
            seen.add(row["field"])
            yield row["field"], found
    for row in recipe.row["fields"] if not recipe.missing else ():
        if row["field"] not in seen and "default" in row:
            seen.add(row["field"])
            origin = Origin(f"default of {recipe.name}: nothing in the file says", recipe.root.path, 0)
            yield row["field"], Sourced(row["default"], origin)


def _read(recipe: Recipe, row: Mapping[str, Any]) -> Sourced[Any] | None:
    for key in row["keys"]:
        given = recipe.given.get(key) or recipe.given.get(key.replace("-", "_"))
        if given is not None:
            origin = given.origin(f"{key} {given.text}")
            if given.unknown:
                return not_known(given.unknown, origin)
            return _translated(given.text, origin, row)
        node = recipe.root.get(key)
        if node is None:
            continue
        node = resolved(recipe.root, node) if recipe.row.get("is_composed") else node
        if row.get("is_there"):
            return Sourced(row["is_there"], node.origin(f"{key} is given"))
        if node.is_list:
            texts = tuple(item.text for item in node.items())
            return Sourced(texts, node.origin(f"{key}: {', '.join(texts)[:60]}")) if texts else None
        made = node.get(CALLEE)
        if made is not None:
            return not_known(f"{made.text}(…) is computed when it runs", node.origin(f"{key}: {made.text}(…)"))
        if node.mapping():
            return Sourced(key, node.origin(f"{key} is given")) if "values" not in row else None
        if node.value is None or node.text == "":
            continue
        return _prefixed(recipe, row, _translated(node.text, node.origin(f"{key}: {node.text}"[:90]), row))
    return None


def _translated(text: str, origin: Origin, row: Mapping[str, Any]) -> Sourced[Any] | None:
    if "$" in text or "{{" in text:
        return not_known(f"{text[:60]} is filled in at run time", origin)
    if "pattern" in row:
        match = re.search(row["pattern"], text)
        if match is None:
            return None
        text = row.get("becomes", match[1])
    if "values" in row:
        value = row["values"].get(text.lower())
        if value is None and row.get("is_strict"):
            return not_known(f"{row['field']} {text[:60]!r} is nothing that we can count", origin)
        return None if value is None else Sourced(value, origin)
    return Sourced(text, origin)


def _prefixed(recipe: Recipe, row: Mapping[str, Any], found: Sourced[Any] | None) -> Sourced[Any] | None:
    """``model.name`` and ``model.flavor`` name a model together."""
    node = recipe.root.get(row["prefix"]) if "prefix" in row else None
    if found is None or node is None or not node.text:
        return found
    return Sourced(f"{node.text} {found.value}", found.origin)


# --- facts put together -------------------------------------------------------------------------------------------


def _combined(
    recipe: Recipe, facts: dict[str, Sourced[Any]], files: Files, launch: LaunchConfig
) -> Iterator[tuple[str, Sourced[Any]]]:
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
