"""Hydra configurations as launch files: the primary one starts its script, an experiment starts it with itself."""

from __future__ import annotations

import posixpath
import re

from estimator.launch.base import Arg, LaunchConfig, Request, Target, not_known
from estimator.launch.documents import UnreadableDocument, documents
from estimator.launch.topology import processes
from estimator.resolve.command import parse
from estimator.resolve.hydra_apps import Main, mains

_DEFAULTS = re.compile(rb"^defaults\s*:", re.MULTILINE)


class HydraReader:
    """Files with a defaults list."""

    format = "hydra"
    rank = 68

    def detect(self, path: str, content: bytes) -> bool:
        """A YAML document whose ``defaults`` is a list."""
        if not path.endswith((".yaml", ".yml")) or not _DEFAULTS.search(content):
            return False
        try:
            root = next(iter(documents(path, content)), None)
        except UnreadableDocument:
            return False
        defaults = root.get("defaults") if root is not None else None
        return defaults is not None and defaults.is_list

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The launch of each script that has this file for its configuration, or among its experiments."""
        stem = posixpath.splitext(request.path)[0]
        found: list[LaunchConfig] = []
        for main in mains(request.files):
            folder = main.folders[0]
            if posixpath.join(folder, main.name.removesuffix(".yaml")) == stem:
                found += _started(request, main, ())
            elif stem.startswith(f"{folder}/experiment/"):
                found += _started(request, main, (f"experiment={stem.removeprefix(f'{folder}/experiment/')}",))
        return tuple(found)


READER = HydraReader()


def _started(request: Request, main: Main, chosen: tuple[str, ...]) -> list[LaunchConfig]:
    texts = ("python", main.script, *chosen, *(arg.text for arg in request.argv or ()))
    parsed = parse([Arg(text, request.path, 1) for text in texts], {})
    if parsed is None:
        return []
    nothing = not_known("the configuration names no GPU")
    many = not_known("the configuration counts no devices")
    target = Target(gpu=nothing, gpus_per_node=many, nodes=many)
    return [
        LaunchConfig(
            path=request.path, line=1, format="hydra", target=target,
            processes=processes(parsed.command, target, None), command=parsed.command,
        )
    ]  # fmt: skip
