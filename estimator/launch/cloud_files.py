"""Axolotl's cloud files: ``axolotl train run.yaml --cloud cloud.yaml`` rents the GPUs that the second file names."""

from __future__ import annotations

from dataclasses import replace

from analyzer.api import Files
from estimator.launch.base import Arg, LaunchConfig, Processes, Target, not_known
from estimator.launch.documents import Node, UnreadableDocument, documents
from estimator.launch.embedded import number, one
from estimator.launch.modal_gpus import target_of
from estimator.launch.places import find_named

_OWN_KEYS = {"provider", "gpu_count", "dockerfile_commands", "memory_preprocess", "timeout_preprocess", "project_name",
             "branch", "volumes", "secrets", "region"}  # fmt: skip


def is_cloud_file(root: Node) -> bool:
    """A GPU, keys that only such a file has (the provider may be missing: it is Modal), and nothing to run."""
    is_run = any(root.get(key) is not None for key in ("run", "command", "commands", "type", "kind", "base_model"))
    mapping = root.mapping()
    return "gpu" in mapping and not is_run and len(_OWN_KEYS & mapping.keys()) >= 2


def cloud_target(root: Node) -> Target:
    """The container that the file asks for; one GPU unless it counts more."""
    gpu_node = root.get("gpu")
    gpu, count = not_known("the cloud file names no GPU"), one("one GPU unless gpu_count says more", root.path)
    if gpu_node is not None and gpu_node.text:
        gpu, count = target_of((gpu_node.text,), gpu_node.origin(f"gpu: {gpu_node.text}"))
    counted = number(root.get("gpu_count"), "gpu_count")
    return Target(gpu=gpu, gpus_per_node=counted or count, nodes=one("one container", root.path))


def on_cloud(files: Files, launch: LaunchConfig) -> LaunchConfig:
    """The launch on the hardware of the cloud file that its command names."""
    named = _cloud_option(launch) if launch.command.launcher == "axolotl" else None
    path = find_named(files, named, launch.command.cwd, launch.path) if named is not None else None
    source = files.read(path) if path is not None else None
    if path is None or source is None:
        return launch
    try:
        root = next(iter(documents(path, source)), None)
    except UnreadableDocument:
        return launch
    if root is None or not is_cloud_file(root):
        return launch
    target = cloud_target(root)
    is_known = launch.recipe is not None
    per_node = target.gpus_per_node if is_known else not_known("the run's configuration is not in the repository")
    started = Processes(per_node=per_node, nodes=target.nodes)
    return replace(launch, target=target, processes=started, sources=launch.sources | {path})


def _cloud_option(launch: LaunchConfig) -> Arg | None:
    words = launch.command.argv
    for index, word in enumerate(words):
        name, has_value, value = word.text.partition("=")
        if name == "--cloud":
            return replace(word, text=value) if has_value else words[index + 1] if index + 1 < len(words) else None
    return None
