"""SkyPilot tasks: ``resources.accelerators``, ``num_nodes`` and the ``run`` script. `A100` is the 40 GB card here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from estimator.launch.base import Arg, LaunchConfig, Request, Target, not_known
from estimator.launch.documents import Node
from estimator.launch.embedded import any_document, environment, launches, looks_like, number, one, roots, script_text
from estimator.launch.topology import count as count_of
from estimator.resolve.arguments import options
from estimator.sourced import Sourced, Unknown

_NAME = re.compile(r"\s*([A-Za-z][\w.\-]*)\s*(?::\s*(\d{1,4}(?:\.\d{1,3})?))?\s*")
_NAMES = {"A100": "A100-40GB", "H100-MEGA": "H100", "A100-80GB-SXM": "A100-80GB"}


class SkyReader:
    """``sky launch`` files."""

    format = "skypilot"
    rank = 45

    def detect(self, path: str, content: bytes) -> bool:
        """A document with a ``run`` script and ``resources``."""
        if not looks_like(path, content, b"resources", b"run:"):
            return False
        return any_document(path, content, _is_task)

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The launches of every task of the file."""
        found: list[LaunchConfig] = []
        for root in roots(request):
            run = root.get("run")
            if not _is_task(root) or run is None:
                continue
            target = with_options(_target(root, request.labels), request.options)
            found += launches(request, self.format, script_text(run), target, _variables(root, target))
        return tuple(found)


READER = SkyReader()


def _is_task(root: Node) -> bool:
    resources, run = root.get("resources"), root.get("run")
    has_kind = root.get("kind") is not None or root.get("type") is not None
    return resources is not None and run is not None and bool(run.text) and not has_kind


def _target(root: Node, labels: Mapping[str, str]) -> Target:
    nodes = number(root.get("num_nodes"), "num_nodes") or one("one node unless num_nodes says more", root.path)
    asked = list(_asked(root))
    if not asked:
        nothing = not_known("resources name no accelerators")
        return Target(gpu=_instance(root) or nothing, gpus_per_node=nothing, nodes=nodes)
    origin = asked[0][2]
    names = tuple(dict.fromkeys(labels.get(name) or _NAMES.get(name, name) for name, _, _ in asked))
    counts = tuple(dict.fromkeys(count for _, count, _ in asked))
    count: Sourced[int] = Sourced(counts[0], origin.origin(f"accelerators: {origin.text}"))
    if len(counts) > 1:
        count = Sourced(Unknown("the alternatives have different numbers of GPUs", counts), count.origin)
    return Target(gpu=Sourced(names, count.origin), gpus_per_node=count, nodes=nodes)


def with_options(target: Target, words: Sequence[Arg]) -> Target:
    """The target with what ``sky launch --gpus H100:4 --num-nodes 2`` says instead."""
    given = dict(options(words))
    gpus, nodes = given.get("gpus"), given.get("num_nodes")
    match = _NAME.fullmatch(gpus.text) if gpus is not None else None
    if gpus is not None:
        origin = gpus.origin(f"--gpus {gpus.text}")
        unknown = not_known(gpus.unknown or f"--gpus {gpus.text[:40]!r}", origin)
        name = _NAMES.get(match[1], match[1]) if match else ""
        target = replace(
            target,
            gpu=Sourced((name,), origin) if match else unknown,
            gpus_per_node=Sourced(_count(match), origin) if match else unknown,
        )
    if nodes is not None:
        target = replace(target, nodes=count_of(nodes, "--num-nodes"))
    return target


def _asked(root: Node) -> Iterator[tuple[str, int, Node]]:
    """Name, count and place of every accelerator that may be used."""
    resources = root.get("resources")
    places = [resources] if resources is not None else []
    for key in ("any_of", "ordered"):
        several = resources.get(key) if resources is not None else None
        places += several.items() if several is not None else []
    for place in places:
        accelerators = place.get("accelerators")
        if accelerators is None:
            continue
        for name, node in accelerators.mapping().items():
            text = f"{name}:{node.text}" if node.text else name
            yield from _parsed(text, node)
        for item in accelerators.items():
            yield from _parsed(item.text, item)


def _parsed(text: str, node: Node) -> Iterator[tuple[str, int, Node]]:
    match = _NAME.fullmatch(text)
    if match is not None and not match[1].lower().startswith("tpu"):
        yield match[1], _count(match), node


def _count(match: re.Match[str]) -> int:
    """A fraction of a GPU is one process on it."""
    return max(int(float(match[2] or 1)), 1)


def _instance(root: Node) -> Sourced[tuple[str, ...]] | None:
    node = root.get("resources.instance_type")
    return Sourced((node.text,), node.origin(f"instance_type: {node.text}")) if node is not None and node.text else None


def _variables(root: Node, target: Target) -> dict[str, Arg]:
    found = {**environment(root.get("envs")), **environment(root.get("secrets"))}
    for name, value in (("SKYPILOT_NUM_GPUS_PER_NODE", target.gpus_per_node), ("SKYPILOT_NUM_NODES", target.nodes)):
        if isinstance(value.value, int):
            found[name] = Arg(str(value.value), root.path, value.origin.line or root.line)
        elif isinstance(value.value, Unknown):
            found[name] = Arg(f"${name}", root.path, root.line, value.value.reason)
    return {name: replace(arg, name=name) for name, arg in found.items()}
