"""dstack tasks: ``resources.gpu`` in dstack's own grammar, ``nodes`` and the ``commands``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from estimator.launch.base import Arg, LaunchConfig, Request, Target, not_known
from estimator.launch.documents import Node
from estimator.launch.embedded import any_document, environment, launches, looks_like, number, one, roots, script_text
from estimator.sourced import Origin, Sourced, Unknown

_VENDORS = {"nvidia", "amd", "tpu", "intel", "tenstorrent"}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*(GB|TB)(\.\.)?(?:(\d+(?:\.\d+)?)\s*(GB|TB))?", re.IGNORECASE)


class DstackReader:
    """``type: task`` files."""

    format = "dstack"
    rank = 44

    def detect(self, path: str, content: bytes) -> bool:
        """A task with commands."""
        if not looks_like(path, content, b"type:", b"commands:"):
            return False
        return any_document(path, content, _is_task)

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The launches of every task of the file."""
        found: list[LaunchConfig] = []
        for root in roots(request):
            commands = root.get("commands")
            if not _is_task(root) or commands is None:
                continue
            target = _target(root, request.labels)
            found += launches(request, self.format, script_text(commands), target, _variables(root, target))
        return tuple(found)


READER = DstackReader()


def _is_task(root: Node) -> bool:
    kind = root.get("type")
    return kind is not None and kind.text == "task" and root.get("commands") is not None


def _target(root: Node, labels: Mapping[str, str]) -> Target:
    nodes = number(root.get("nodes"), "nodes") or one("one node unless nodes says more", root.path)
    gpu = root.get("resources.gpu")
    if gpu is None:
        nothing = not_known("resources.gpu is not given")
        return Target(gpu=nothing, gpus_per_node=nothing, nodes=nodes)
    if gpu.mapping():
        parts = [part.text for part in (gpu.get("name"), gpu.get("memory"), gpu.get("count")) if part is not None]
        text = ":".join(parts)
    else:
        text = gpu.text
    return _parsed(text, gpu.origin(f"gpu: {text}"), nodes, labels)


def _parsed(text: str, origin: Origin, nodes: Sourced[int], labels: Mapping[str, str]) -> Target:
    """Tokens in any order: names, memory (a range is several cards), count or a range of counts, vendor."""
    names: tuple[str, ...] = ()
    memory = ""
    count: Sourced[int] = Sourced(1, origin)
    for token in filter(None, (part.strip() for part in text.split(":"))):
        if span := re.fullmatch(r"(\d+)\.\.(\d*)", token):
            options = tuple(range(int(span[1]), int(span[2] or span[1]) + 1))[:64]
            count = Sourced(Unknown(f"anything from {span[1]} to {span[2] or 'more'}", options[::-1]), origin)
        elif token.isdigit():
            count = Sourced(int(token), origin)
        elif _MEMORY.fullmatch(token):
            memory = token
        elif token.lower() not in _VENDORS:
            names = tuple(labels.get(name.strip(), name.strip()) for name in token.split(","))
    if names and memory and ".." not in memory:
        names = tuple(f"{name}-{memory.upper()}" for name in names)
    if not names and memory and ".." not in memory:
        names = (memory.upper(),)
    gpu: Sourced[tuple[str, ...]] = (
        Sourced(names, origin) if names else not_known(f"any GPU with {memory or text}", origin)
    )
    return Target(gpu=gpu, gpus_per_node=count, nodes=nodes)


def _variables(root: Node, target: Target) -> dict[str, Arg]:
    found = environment(root.get("env"))
    values = {"DSTACK_GPUS_PER_NODE": target.gpus_per_node, "DSTACK_NODES_NUM": target.nodes}
    for name, value in values.items():
        if isinstance(value.value, int):
            found[name] = Arg(str(value.value), root.path, value.origin.line or root.line)
        elif isinstance(value.value, Unknown):
            found[name] = Arg(f"${name}", root.path, root.line, value.value.reason)
    return found
