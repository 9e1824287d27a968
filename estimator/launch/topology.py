"""How many training processes a launch starts: launcher options, Slurm tasks, visible devices."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from estimator.launch.base import Arg, Command, Processes, Target, not_known
from estimator.resolve.command import table
from estimator.sourced import Origin, Sourced, Unknown

_MOST = 65536


def count(arg: Arg, words: str) -> Sourced[int]:
    """A whole number, a range (``1:4`` or ``1-4``, the most first: it is the cheapest), or the reason why not."""
    origin = arg.origin(f"{words} {arg.text}".strip())
    if arg.unknown:
        return Sourced(Unknown(arg.unknown), origin)
    text = arg.text.strip()
    if re.fullmatch(r"\d{1,6}", text) and 1 <= int(text) <= _MOST:
        return Sourced(int(text), origin)
    span = re.fullmatch(r"(\d{1,6})[:-](\d{1,6})", text)
    if span and 1 <= int(span[1]) <= int(span[2]) <= _MOST:
        low, high = int(span[1]), int(span[2])
        if low == high:
            return Sourced(low, origin)
        return Sourced(Unknown(f"anything from {low} to {high}", (high, low)), origin)
    return Sourced(Unknown(f"{words} {text[:40]!r} is not a whole number from 1 to {_MOST}"), origin)


def visible_devices(env: Mapping[str, Arg]) -> Sourced[int] | None:
    """How many GPUs ``CUDA_VISIBLE_DEVICES`` leaves; None when the command does not set it."""
    value = env.get("CUDA_VISIBLE_DEVICES")
    if value is None or value.text.strip() == "":
        return None
    origin = value.origin(f"CUDA_VISIBLE_DEVICES={value.text}")
    if value.unknown:
        return Sourced(Unknown(value.unknown), origin)
    return Sourced(len([item for item in value.text.split(",") if item.strip()]), origin)


def processes(command: Command, target: Target, tasks_per_node: Sourced[int] | None) -> Processes:
    """Training processes per node, and nodes. `tasks_per_node` is known for a command that ``srun`` starts."""
    handler: Callable[[Command, Target, Mapping[str, Any]], Processes] = {
        "torchrun": _per_node,
        "deepspeed": _deepspeed,
        "accelerate": _accelerate,
    }.get(command.launcher, _plain)
    row = next(dict(row) for row in table()["launcher"] if row["name"] == command.launcher)
    if row.get("starts") == "all":
        return Processes(per_node=_all_gpus(command, target), nodes=target.nodes)
    if row.get("recipe") and row.get("processes_per_node"):
        handler = _per_node
    answer = handler(command, target, row)
    if command.launcher == "python" and tasks_per_node is not None:
        return Processes(per_node=tasks_per_node, nodes=target.nodes)
    return answer


def _option(command: Command, name: str) -> Sourced[int] | None:
    arg = command.options.get(name)
    return count(arg, name) if arg is not None else None


def _nodes(command: Command, target: Target, row: Mapping[str, Any]) -> Sourced[int]:
    given = _option(command, row["nodes"])
    if given is not None:
        return given if given.is_known or not target.nodes.is_known else target.nodes
    return target.nodes if target.nodes.is_known else Sourced(1, Origin(f"default of {command.launcher}"))


def _all_gpus(command: Command, target: Target) -> Sourced[int]:
    visible = visible_devices(command.env)
    if visible is not None:
        return visible
    if target.gpus_per_node.is_known:
        return target.gpus_per_node
    return not_known("as many processes as the machine has GPUs, which the file does not say")


def _per_node(command: Command, target: Target, row: Mapping[str, Any]) -> Processes:
    given = command.options.get(row["processes_per_node"]) or command.env.get("PET_NPROC_PER_NODE")
    if given is None:
        per_node: Sourced[int] = Sourced(1, Origin(f"default of {command.launcher}"))
    elif given.text in {"gpu", "auto"}:
        per_node = _all_gpus(command, target)
    else:
        per_node = count(given, row["processes_per_node"])
    if not per_node.is_known and target.gpus_per_node.is_known:
        per_node = target.gpus_per_node
    return Processes(per_node=per_node, nodes=_nodes(command, target, row))


def _deepspeed(command: Command, target: Target, row: Mapping[str, Any]) -> Processes:
    given = _option(command, row["processes_per_node"])
    include = command.options.get("--include")
    if given is None and include is not None and include.is_known and ":" in include.text:
        slots = include.text.split("@")[0].split(":", 1)[1].split(",")
        given = Sourced(len(slots), include.origin(f"--include {include.text}"))
    return Processes(per_node=given or _all_gpus(command, target), nodes=_nodes(command, target, row))


def _accelerate(command: Command, target: Target, row: Mapping[str, Any]) -> Processes:
    nodes = _nodes(command, target, row)
    total = _option(command, row["total_processes"])
    if total is None:
        return Processes(per_node=_all_gpus(command, target), nodes=nodes)
    per_node: Sourced[int] = total
    if isinstance(total.value, int) and isinstance(nodes.value, int) and total.value % nodes.value == 0:
        per_node = Sourced(total.value // nodes.value, total.origin)
    elif not total.is_known and target.gpus_per_node.is_known:
        per_node = target.gpus_per_node
    elif not nodes.is_known:
        per_node = not_known(f"{total.origin} over a number of nodes that is not known")
    return Processes(per_node=per_node, nodes=nodes)


def _plain(command: Command, target: Target, row: Mapping[str, Any]) -> Processes:
    one: Sourced[int] = Sourced(1, Origin("one process", command.script.path, command.line))
    return Processes(per_node=one, nodes=one)
