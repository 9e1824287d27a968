"""Applications with ``@hydra.main``: their composed configuration as a recipe, where it drives Lightning's Trainer.

A batch size may be the sum over all processes: the data module's own code decides, and without it nobody knows.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from analyzer.api import Files
from estimator.launch.base import Arg, Command, LaunchConfig, not_known
from estimator.launch.documents import Node
from estimator.resolve import hydra
from estimator.resolve.closure import script_path
from estimator.resolve.combined import Recipe, whole
from estimator.resolve.recipes import kind_of, table, with_recipe
from estimator.sourced import Origin, Sourced, Unknown

_BATCH_KEYS = (
    "data.batch_size", "datamodule.batch_size", "data_module.batch_size", "data.train_batch_size", "dataset.batch_size",
    "data.dataloader.batch_size", "dataloader.batch_size", "data.loader.batch_size", "data.batch_size_per_gpu",
    "datamodule.train_batch_size", "data.train_dataloader.batch_size", "train.batch_size", "training.batch_size",
)  # fmt: skip
_MODULES = ("data", "datamodule", "data_module", "dataset")
_DIVIDES = re.compile(
    r"batch_size[\w\]\"']*\s*//|//\s*(?:self\.)?(?:trainer\.)?(?:world_size|num_devices|num_gpus|n_gpus)"
)
_RECOMPUTES = re.compile(rb"checkpoint\(|gradient_checkpointing|enable_checkpointing_layers|checkpoint_sequential")
_MOST_CODE = 64
_MOST_SCRIPTS = 200


@dataclass(frozen=True, slots=True)
class Main:
    """The ``@hydra.main`` of a script: where its configurations are. `script` is empty where the script is not here."""

    folders: tuple[str, ...]
    name: str
    script: str = ""


def with_hydra(files: Files, launch: LaunchConfig) -> LaunchConfig:
    """The launch with what its composed configuration says; unchanged where there is none."""
    if launch.recipe is not None or launch.command.launcher not in {"python", "torchrun", "accelerate"}:
        return launch
    main = main_of(files, launch.command, launch.path)
    if main is None:
        return launch
    overrides = hydra.overrides_of(_without_options(launch.command.argv))
    composer = hydra.Composer(files, main.folders, overrides)
    try:
        root = composer.compose(main.name)
    except hydra.NotComposed as problem:
        return replace(launch, notes=(*launch.notes, f"Hydra configuration not composed: {problem}"))
    named = [_code_path(files, node.text) for key, node in hydra.leaves(root) if key.endswith("_target_")]
    launch = replace(launch, sources=launch.sources | composer.read | {path for path in named if path is not None})
    accelerator = root.get("trainer.accelerator")
    if accelerator is not None and accelerator.text in {"cpu", "tpu", "mps"}:
        return replace(launch, notes=(*launch.notes, f"trains on {accelerator.text}, no GPU ({accelerator.origin()})"))
    if not _is_lightning(files, root, main):
        return launch
    row = kind_of(root, "hydra")
    if row is None:
        return launch
    launch = with_recipe(files, launch, Recipe(row, root, {}, launch.command.script))
    said = dict(launch.recipe or {})
    said.update(_guarded(files, root, main, composer))
    batch = _micro_batch(files, root, _world(root))
    if batch is not None:
        said["micro_batch"] = batch
    return replace(launch, recipe=said)


# --- where the configuration is -------------------------------------------------------------------------------


def main_of(files: Files, command: Command, near: str) -> Main | None:
    """Where a command's script has its configuration; None for a script without one."""
    script = script_path(files, command, near)
    given = dict(_options(command.argv))
    if script is None:
        return _guessed(files, command) if not command.is_module else None
    source = files.read(script) or b""
    if b"hydra" not in source or len(source) > 1_000_000:
        return None
    keywords = next(_decorators(source), None)
    if keywords is None:
        return None
    path, name = keywords.get("config_path"), keywords.get("config_name")
    folder = posixpath.normpath(posixpath.join(posixpath.dirname(script), path)) if path is not None else None
    moved = given.get("path")
    if moved is not None:
        folder = posixpath.normpath(posixpath.join(posixpath.dirname(script), moved))
    more = given.get("dir")
    folders = tuple(item for item in (folder, posixpath.normpath(more) if more else None) if item is not None)
    name = given.get("name") or name
    return Main(folders, name, script) if folders and name and not folders[0].startswith("..") else None


def mains(files: Files) -> list[Main]:
    """The applications of a tree, among its first scripts by name."""
    scripts = [path for path in sorted(files.paths()) if path.endswith(".py")]
    scripts.sort(key=lambda path: not re.search(r"(?:^|/)(?:\w*train\w*|main|run|cli)\.py$", path))
    found = []
    for path in scripts[:_MOST_SCRIPTS]:
        source = files.read(path) or b""
        if b"hydra" in source:
            script = Arg(path, path, 1)
            command = Command(words=(script,), launcher="python", script=script, is_module=False, argv=())
            main = main_of(files, command, path)
            found += [main] if main is not None else []
    return found


def _decorators(source: bytes) -> Iterator[dict[str, str | None]]:
    """The keywords of ``@hydra.main(...)``."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        for item in getattr(node, "decorator_list", []):
            if isinstance(item, ast.Call) and ast.unparse(item.func) in {"hydra.main", "main"}:
                words = {word.arg: word.value for word in item.keywords if word.arg}
                words.update(zip(("config_path", "config_name"), item.args, strict=False))
                yield {
                    name: str(value.value) if isinstance(value, ast.Constant) and value.value is not None else None
                    for name, value in words.items()
                }


def _guessed(files: Files, command: Command) -> Main | None:
    """The one configuration of the tree that a missing script by that name would have, if it is given overrides."""
    stem = posixpath.basename(command.script.text).removesuffix(".py")
    if not any(re.fullmatch(r"[A-Za-z_]\w*=[\w.\-]+", word.text) for word in command.argv):
        return None
    found = [
        path
        for path in files.paths()
        if re.fullmatch(rf"(?:.*/)?(?:configs?|conf)/{re.escape(stem)}\.yaml", path)
        and b"defaults:" in (files.read(path) or b"")
    ]
    return Main((posixpath.dirname(found[0]),), stem) if len(found) == 1 else None


_NAMES = {
    "-cn": "name", "--config-name": "name", "-cp": "path", "--config-path": "path", "-cd": "dir", "--config-dir": "dir",
}  # fmt: skip


def _options(argv: tuple[Arg, ...]) -> Iterator[tuple[str, str]]:
    for index, word in enumerate(argv):
        name, has_value, value = word.text.partition("=")
        if name in _NAMES and has_value:
            yield _NAMES[name], value
        elif name in _NAMES and index + 1 < len(argv):
            yield _NAMES[name], argv[index + 1].text


def _without_options(argv: tuple[Arg, ...]) -> list[Arg]:
    return [word for word in argv if not word.text.startswith("-")]


# --- what it means --------------------------------------------------------------------------------------------


def _is_lightning(files: Files, root: Node, main: Main) -> bool:
    target = root.get("trainer._target_")
    if target is not None:
        return "lightning" in target.text.lower() and target.text.endswith("Trainer")
    source = files.read(main.script) if main.script else None
    return source is not None and b"lightning" in source and root.get("trainer") is not None


def _world(root: Node) -> Sourced[Any]:
    row = next(row for row in table() if row["name"] == "hydra")
    wanted = {item["field"]: item for item in row["fields"]}
    counts: list[Sourced[Any]] = []
    for name in ("devices", "num_nodes"):
        node = next((found for key in wanted[name]["keys"] if (found := root.get(key)) is not None), None)
        if node is None:
            counts.append(
                Sourced(1, Origin("default of Lightning")) if name == "num_nodes" else not_known("no devices")
            )
            continue
        node = hydra.resolved(root, node)
        value = tuple(item.text for item in node.items()) if node.is_list else node.text
        counts.append(whole(Sourced(value, node.origin(f"{name}: {node.text}"))) or not_known("devices"))
    numbers = [count.value for count in counts if isinstance(count.value, int)]
    return Sourced(numbers[0] * numbers[1], counts[0].origin) if len(numbers) == 2 else not_known("processes")


def _micro_batch(files: Files, root: Node, world: Sourced[Any]) -> Sourced[Any] | None:
    found = next(((key, node) for key in _BATCH_KEYS if (node := root.get(key)) is not None), None)
    if found is None:
        return None
    key, node = found
    node = hydra.resolved(root, node)
    origin = node.origin(f"{key}: {node.text}")
    value = node.value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        return not_known(f"{key} {node.text[:40]!r} is known when it runs", origin)
    if world.value == 1:
        return Sourced(value, origin)
    divides = _divides(files, root)
    if divides is False:
        return Sourced(value, origin)
    if divides is None:
        return not_known(f"{key} {value} is per process, or for all of them: its data module is not in sight", origin)
    if not isinstance(world.value, int) or value % world.value:
        return not_known(f"{key} {value} is divided by a number of processes that is not known", origin)
    words = f"{key}: {value}, which the data module divides by {world.value} processes"
    return Sourced(value // world.value, replace(origin, text=words))


def _divides(files: Files, root: Node) -> bool | None:
    """Whether the data module divides the batch size by the number of processes; None where its code is not here."""
    target = next((node for name in _MODULES if (node := root.get(f"{name}._target_")) is not None), None)
    source = _code(files, target.text) if target is not None else None
    if source is None:
        return None
    return bool(_DIVIDES.search(source.decode("utf-8", "replace")))


def _code(files: Files, target: str) -> bytes | None:
    """The module of a ``_target_`` class."""
    path = _code_path(files, target)
    return files.read(path) if path is not None else None


def _code_path(files: Files, target: str) -> str | None:
    known = files.paths()
    stem = target.rpartition(".")[0].replace(".", "/")
    for path in (f"{stem}.py", f"src/{stem}.py", f"{stem}/__init__.py"):
        if stem and path in known:
            return path
    return None


def _guarded(files: Files, root: Node, main: Main, composer: hydra.Composer) -> Iterator[tuple[str, Sourced[Any]]]:
    """Whether nothing in the configuration, or in the code it names, speaks of adapters or of recomputation."""
    values = list(hydra.leaves(root))
    texts = [f"{key} {node.text}".lower() for key, node in values]
    origin = Origin("nothing in the configuration says otherwise", composer.folders[0], 0)
    if not any(re.search(r"lora|peft|adapter|freeze|frozen", text) for text in texts):
        yield "method", Sourced("full", origin)
    else:
        yield "method", not_known("a key speaks of adapters or of frozen parts", origin)
    code = [_code(files, node.text) or b"" for key, node in values if key.endswith("_target_")][:_MOST_CODE]
    is_named = any("checkpointing" in text and "callbacks" not in text for text in texts)
    if not is_named and not any(_RECOMPUTES.search(source) for source in code):
        yield "grad_checkpointing", Sourced("none", origin)
    else:
        yield (
            "grad_checkpointing",
            Sourced(Unknown("the code or a key speaks of recomputation", ("full", "none")), origin),
        )
