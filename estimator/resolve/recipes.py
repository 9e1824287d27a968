"""Configuration files that are a whole training run (Axolotl, LLaMA-Factory, torchtune, litgpt, torchtitan, …).

``recipes.toml`` says what their keys mean; this module finds the file a command names, lets the command line override
it, and puts the facts together (`combined.py`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from analyzer.api import Files
from estimator.launch.base import Arg, Command, LaunchConfig, Processes, not_known
from estimator.launch.documents import Node, UnreadableDocument, documents
from estimator.launch.places import find_named
from estimator.resolve import rows
from estimator.resolve.combined import Recipe, combined, whole
from estimator.resolve.command import table as launchers
from estimator.resolve.hydra import resolved
from estimator.resolve.registries import CALLEE, configuration
from estimator.sourced import Origin, Sourced, Unknown

SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_CONFIG_OPTIONS = ("--config", "--config-file", "--job.config-file", "--job.config_file", "-c")
_HIDDEN = ("model", "micro_batch", "grad_accum", "seq_len", "precision", "optimizer", "method", "grad_checkpointing",
           "sharding", "offload")  # fmt: skip
NOT_COUNTED = "not counted: "


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
    fields = _whole_fields(recipe, facts, dict(combined(recipe, facts, files, launch)))
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
