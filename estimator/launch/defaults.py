"""The GPU that the configuration gives a launch which names none, or whose word for it is not in the map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from estimator.launch.base import LaunchConfig
from estimator.sourced import Origin, Sourced

UNNAMED = ""
"""The key of `labels` for a launch that names no GPU, pool or partition; its value may be several, with commas."""
ANY = "*"
"""The key for every launch whose GPU would otherwise be unknown, also where it names an unmapped partition."""


def with_default_gpu(launch: LaunchConfig, labels: Mapping[str, str]) -> LaunchConfig:
    """The launch with a GPU from the map where the file gives none."""
    gpu = launch.target.gpu
    if gpu.is_known:
        return launch
    is_unnamed = not gpu.origin.path  # a word that nobody mapped has a place, and stands for hardware of its own
    default, key = (labels.get(UNNAMED), "default_targets") if is_unnamed else (None, "")
    if not default:
        default, key = labels.get(ANY), 'targets "*"'
    names = tuple(name.strip() for name in (default or "").split(",") if name.strip())
    if not names:
        return launch
    found = Sourced(names, Origin(f"{key} of the Preflight configuration"))
    return replace(launch, target=replace(launch.target, gpu=found))
