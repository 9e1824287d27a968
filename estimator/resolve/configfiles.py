"""Config files that a launch command names: accelerate's YAML as launcher options, DeepSpeed's JSON as facts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import yaml

from analyzer.api import Files
from estimator.launch.base import Arg, Command
from estimator.launch.places import find_named
from estimator.resolve.command import table
from estimator.sourced import Origin, Sourced

_MAX_BYTES = 256 * 1024
_MAX_KEYS = 500


def with_accelerate_file(command: Command, files: Files, near: str) -> Command:
    """The command with the keys of its ``--config_file`` as options; what the command line gives wins."""
    named = command.options.get("--config-file")
    if command.launcher != "accelerate" or named is None:
        return command
    path = find_named(files, named, command.cwd, near)
    if path is None:
        return command
    keys: Mapping[str, str] = table()["accelerate_keys"]
    found: dict[str, Arg] = {}
    for key, value, line in _scalars(files.read(path) or b""):
        if key in keys:
            found[keys[key]] = Arg(value, path, line)
        if key == "distributed_type" and value in {"FSDP", "DEEPSPEED"}:
            found[f"--use-{value.lower()}"] = Arg("true", path, line)
    return replace(command, options={**found, **command.options})


def _scalars(source: bytes) -> Iterator[tuple[str, str, int]]:
    """``key: value`` pairs of a YAML mapping and of the mappings right inside it, with lines. Aliases stay shared."""
    if len(source) > _MAX_BYTES:
        return
    try:
        root = yaml.compose(source.decode("utf-8", "replace"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return
    if not isinstance(root, yaml.MappingNode):
        return
    for key, value in root.value[:_MAX_KEYS]:
        inner = value.value[:_MAX_KEYS] if isinstance(value, yaml.MappingNode) else [(key, value)]
        for name, scalar in inner:
            if isinstance(scalar, yaml.ScalarNode):
                yield str(name.value), str(scalar.value), name.start_mark.line + 1


def deepspeed_facts(named: Arg, files: Files, cwd: str, near: str) -> dict[str, Sourced[Any]]:
    """What a DeepSpeed JSON decides; ``"auto"`` leaves it to the script. Empty where the file is not in the tree."""
    path = find_named(files, named, cwd, near)
    source = files.read(path) if path else None
    if path is None or source is None or len(source) > _MAX_BYTES:
        return {}
    try:
        document = json.loads(source)
    except (ValueError, RecursionError):
        return {}
    return dict(_facts(document, path, source)) if isinstance(document, dict) else {}


def _facts(document: Mapping[str, Any], path: str, source: bytes) -> Iterator[tuple[str, Sourced[Any]]]:
    zero = document.get("zero_optimization") if isinstance(document.get("zero_optimization"), dict) else {}
    stage = zero.get("stage", 0) if zero else 0
    stages = {0: "ddp", 1: "zero1", 2: "zero2", 3: "zero3"}
    if isinstance(stage, int) and stage in stages:
        yield "sharding", Sourced(stages[stage], _place(path, source, "stage", stage))
    devices = [_device(zero, key) for key in ("offload_optimizer", "offload_param")] if zero else ["none", "none"]
    offload = {(False, False): "none", (True, False): "optimizer", (False, True): "params", (True, True): "both"}
    has = devices[0] != "none", devices[1] != "none"
    yield "offload", Sourced(offload[has], _place(path, source, "offload_optimizer", devices[0]))
    for kind in ("bf16", "fp16"):
        block = document.get(kind)
        if isinstance(block, dict) and block.get("enabled") is True:
            yield "precision", Sourced(f"{kind}-master", _place(path, source, kind, "enabled"))
    for key, word in (("train_micro_batch_size_per_gpu", "micro_batch"), ("gradient_accumulation_steps", "grad_accum")):
        value = document.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            yield word, Sourced(value, _place(path, source, key, value))


def _device(zero: Mapping[str, Any], key: str) -> str:
    block = zero.get(key)
    device = block.get("device", "none") if isinstance(block, dict) else "none"
    return str(device) if device else "none"


def _place(path: str, source: bytes, key: str, value: object) -> Origin:
    at = source.find(f'"{key}"'.encode())
    return Origin(f"{key} {value}", path, source.count(b"\n", 0, at) + 1 if at >= 0 else 0)
