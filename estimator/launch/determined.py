"""Determined experiments: ``resources.slots_per_trial`` and ``entrypoint``. The pool's GPU is state of the cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from estimator.launch.base import Arg, LaunchConfig, Processes, Request, Target, not_known
from estimator.launch.documents import Node
from estimator.launch.embedded import (
    any_document,
    environment,
    joined,
    launches,
    looks_like,
    number,
    one,
    roots,
    script_text,
)
from estimator.sourced import Sourced

_LAUNCH = re.compile(r"^\s*python3?\s+-m\s+determined\.launch\.(\w+)\s+((?:--\S+\s+)*?)(?:--\s+)?(?=\S)")


class DeterminedReader:
    """``det experiment create FILE``."""

    format = "determined"
    rank = 47

    def detect(self, path: str, content: bytes) -> bool:
        """A document with an entrypoint and a searcher or slots."""
        if not looks_like(path, content, b"entrypoint:"):
            return False
        return any_document(path, content, _is_experiment)

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The entrypoint, one process per slot where a launch layer starts it."""
        found: list[LaunchConfig] = []
        for root in roots(request):
            entry = root.get("entrypoint")
            if not _is_experiment(root) or entry is None:
                continue
            line, text = joined(entry.items()) if entry.is_list and entry.items() else script_text(entry)
            match = _LAUNCH.match(text)
            target = _target(root, request.labels)
            script = text[match.end() :] if match else text
            script = script if script.lstrip().startswith("python") or not match else f"python {script}"
            for launch in launches(request, self.format, (line, script), target, _variables(root)):
                started = Processes(per_node=target.gpus_per_node, nodes=target.nodes)
                found.append(replace(launch, processes=started) if match else launch)
        return tuple(found)


READER = DeterminedReader()


def _is_experiment(root: Node) -> bool:
    has_entry = root.get("entrypoint") is not None
    return has_entry and (root.get("searcher") is not None or root.get("resources.slots_per_trial") is not None)


def _variables(root: Node) -> Mapping[str, Arg]:
    return environment(root.get("environment.environment_variables"))


def _target(root: Node, labels: Mapping[str, str]) -> Target:
    """Slots are GPUs of all agents together: how they are spread, the file does not say."""
    slots = number(root.get("resources.slots_per_trial"), "slots_per_trial") or one("one slot per trial", root.path)
    pool = root.get("resources.resource_pool")
    gpu: Sourced[tuple[str, ...]] = not_known("the file names no resource pool")
    if pool is not None and pool.text:
        mapped = labels.get(pool.text)
        reason = f"the GPU of pool {pool.text} is state of the cluster: map it in `targets`"
        gpu = Sourced((mapped,), pool.origin()) if mapped else not_known(reason, pool.origin())
    return Target(gpu=gpu, gpus_per_node=slots, nodes=one("slots of one agent, where they fit", root.path))
