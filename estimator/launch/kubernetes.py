"""Kubernetes manifests: Pod, Job, JobSet, PyTorchJob, TrainJob, MPIJob, RayJob and Volcano Job.

GPUs are the limits of a pod's containers; which GPU, node selectors and required affinities say in labels of the cloud
or of NVIDIA's feature discovery. Sources: the CRDs' API references (kubeflow trainer v1 and v2, ray-operator, jobset).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from estimator.launch.base import Arg, LaunchConfig, Request, Target, not_known
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
from estimator.resolve import rows
from estimator.sourced import Sourced

_GPU = re.compile(r"^(?:nvidia\.com/gpu(?:\.shared)?|amd\.com/gpu|nvidia\.com/mig-(?P<mig>\d+g\.\d+gb))$")
_KINDS = {"Pod", "Job", "CronJob", "PyTorchJob", "TrainJob", "MPIJob", "RayJob", "JobSet"}


@dataclass(frozen=True, slots=True)
class _Group:
    """Pods alike: how many, their spec, and the words that start the program (a list, or shell text)."""

    pods: Sourced[int]
    spec: Node | None
    command: tuple[int, str]
    env: Mapping[str, Arg]


class KubernetesReader:
    """Manifests that start training pods."""

    format = "kubernetes"
    rank = 40

    def detect(self, path: str, content: bytes) -> bool:
        """A document with an API version and one of the kinds."""
        if not looks_like(path, content, b"apiVersion", b"kind"):
            return False
        return any_document(path, content, lambda root: _kind(root) in _KINDS)

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """Every training command of every manifest."""
        found: list[LaunchConfig] = []
        for root in roots(request):
            if _kind(root) not in _KINDS:
                continue
            for group in _groups(root):
                target = _target(group, root, request.labels)
                env = {**_injected(root, target), **group.env}
                found += launches(request, _kind(root).lower(), group.command, target, env)
        return tuple(found)


READER = KubernetesReader()


def _kind(root: Node) -> str:
    kind = root.get("kind")
    return kind.text if kind is not None and root.get("apiVersion") is not None else ""


def _groups(root: Node) -> Iterator[_Group]:
    kind = _kind(root)
    if kind == "TrainJob":
        yield from _trainer(root)
    elif kind == "RayJob":
        yield from _ray(root)
    elif kind in {"PyTorchJob", "MPIJob"}:
        yield from _replicas(root, kind)
    elif kind == "JobSet":
        for job in _items(root, "spec.replicatedJobs"):
            count = number(job.get("replicas"), "replicas") or one("one replica", job.path)
            inner = number(job.get("template.spec.parallelism"), "parallelism")
            yield from _containers(job.get("template.spec.template.spec"), _times(count, inner))
    elif kind == "Job" and root.get("spec.tasks") is not None:  # Volcano
        for task in _items(root, "spec.tasks"):
            count = number(task.get("replicas"), "replicas") or one("one replica", task.path)
            yield from _containers(task.get("template.spec"), count)
    else:
        place = {"Pod": "spec", "CronJob": "spec.jobTemplate.spec.template.spec"}.get(kind, "spec.template.spec")
        count = number(root.get("spec.parallelism"), "parallelism") or one("one pod", root.path)
        yield from _containers(root.get(place), count)


def _items(root: Node, key: str) -> list[Node]:
    found = root.get(key)
    return found.items() if found is not None else []


def _times(count: Sourced[int], inner: Sourced[int] | None) -> Sourced[int]:
    if inner is None or not isinstance(inner.value, int) or not isinstance(count.value, int):
        return count if inner is None or inner.is_known else inner
    return Sourced(count.value * inner.value, inner.origin)


def _containers(spec: Node | None, pods: Sourced[int]) -> Iterator[_Group]:
    for container in _items(spec, "containers") if spec is not None else []:
        yield _Group(pods, spec, _command(container), environment(container.get("env")))


def _command(container: Node) -> tuple[int, str]:
    words = [*_items(container, "command"), *_items(container, "args")]
    if not words:
        return container.line, ""
    line, text = joined(words)
    return line, re.sub(r"\$\((\w+)\)", r"${\1}", text)


def _replicas(root: Node, kind: str) -> Iterator[_Group]:
    """Master and workers of a PyTorchJob run one command; the launcher of an MPIJob starts it on the workers."""
    key = "spec.pytorchReplicaSpecs" if kind == "PyTorchJob" else "spec.mpiReplicaSpecs"
    specs = root.get(key)
    parts = specs.mapping() if specs is not None else {}
    workers, first = parts.get("Worker"), parts.get("Master") or parts.get("Launcher")
    counts = [number(part.get("replicas"), "replicas") or one("one replica", part.path) for part in parts.values()]
    counted = [workers] if kind == "MPIJob" and workers is not None else []
    if counted and workers is not None:
        pods = number(workers.get("replicas"), "replicas") or one("one replica", root.path)
    elif counts and all(isinstance(count.value, int) for count in counts):
        pods = Sourced(sum(count.value for count in counts if isinstance(count.value, int)), counts[-1].origin)
    else:
        pods = next((count for count in counts if not count.is_known), not_known("no replicas"))
    runs = first if kind == "MPIJob" else workers or first
    hardware = workers or first
    if runs is None or hardware is None:
        return
    for group in _containers(runs.get("template.spec"), pods):
        yield replace(group, spec=hardware.get("template.spec"))


def _trainer(root: Node) -> Iterator[_Group]:
    """TrainJob: what is not in its trainer is in a runtime of the cluster."""
    trainer = root.get("spec.trainer")
    if trainer is None:
        return
    pods = number(trainer.get("numNodes"), "numNodes") or not_known("numNodes of the training runtime")
    yield _Group(pods, trainer, _command(trainer), environment(trainer.get("env")))


def _ray(root: Node) -> Iterator[_Group]:
    entry = root.get("spec.entrypoint")
    groups = _items(root, "spec.rayClusterSpec.workerGroupSpecs")
    if entry is None or not entry.text:
        return
    counts = [number(group.get("replicas"), "replicas") or one("one replica", group.path) for group in groups]
    pods = counts[0] if counts else one("no worker group", root.path)
    spec = groups[0].get("template.spec") if groups else root.get("spec.rayClusterSpec.headGroupSpec.template.spec")
    yield _Group(pods, spec, script_text(entry), {})


# --- hardware -----------------------------------------------------------------------------------------------------


def _target(group: _Group, root: Node, labels: Mapping[str, str]) -> Target:
    count, sliced = _gpus(group.spec)
    sliced = sliced or (_part(group.spec) if group.spec is not None else None)
    gpu = sliced or (_named(group.spec, labels) if group.spec is not None else None)
    nothing = not_known("no node selector and no required affinity names a GPU")
    return Target(gpu=gpu or nothing, gpus_per_node=count, nodes=group.pods)


def _gpus(spec: Node | None) -> tuple[Sourced[int], Sourced[tuple[str, ...]] | None]:
    """GPUs of a pod: the sum over its containers. A MIG resource names its slice."""
    total, origin, sliced = 0, None, None
    holders = [*_items(spec, "containers"), spec] if spec is not None else []
    for holder in holders:
        for key in ("resources.limits", "resources.requests", "resourcesPerNode.limits", "resourcesPerNode.requests"):
            resources = holder.get(key)
            found = (
                [(name, node) for name, node in resources.mapping().items() if _GPU.match(name)] if resources else []
            )
            if not found:
                continue
            name, node = found[0]
            counted = number(node, name)
            if counted is None or not isinstance(counted.value, int):
                return counted or not_known(f"{name} is empty"), None
            total, origin = total + counted.value, origin or counted.origin
            match = _GPU.match(name)
            if match is not None and match["mig"]:
                sliced = Sourced((match["mig"],), counted.origin)
            break
    if origin is None:
        return not_known("no GPU is asked for in the resources of its containers"), None
    return Sourced(total, origin), sliced


def _part(spec: Node) -> Sourced[tuple[str, ...]] | None:
    """A share of a GPU: the partition that GKE's label names, or the memory that a vGPU plugin grants (MiB)."""
    for key, values in _label_values(spec):
        if key == "cloud.google.com/gke-gpu-partition-size" and re.fullmatch(r"\d+g\.\d+gb", values[0].text):
            return Sourced((values[0].text,), values[0].origin(f"{key}: {values[0].text}"))
    for container in _items(spec, "containers"):
        granted = number(container.get("resources.limits.nvidia.com/gpumem"), "nvidia.com/gpumem")
        if granted is not None:
            memory = f"{granted.value / 1024:.2f}GiB" if isinstance(granted.value, int) else ""
            return Sourced((memory,), granted.origin) if memory else not_known("nvidia.com/gpumem", granted.origin)
    return None


def _named(spec: Node, labels: Mapping[str, str]) -> Sourced[tuple[str, ...]] | None:
    """The GPU that a label of the node names; alternatives of an affinity are all meant."""
    for key, values in _label_values(spec):
        if key in rows.table("labels")["gpu_labels"] or any(value.text in labels for value in values):
            texts = tuple(labels.get(value.text) or gpu_of_label(value.text) for value in values)
            origin = values[0].origin(f"{key}: {', '.join(value.text for value in values)}"[:90])
            if any("$" in text or "{{" in text for text in texts):
                return not_known(f"{key} is filled in at run time", origin)
            return Sourced(texts, origin)
    return None


def gpu_of_label(value: str) -> str:
    """A label's value as a name the hardware table knows; of a MIG product its slice."""
    known: Mapping[str, str] = rows.table("labels")["gpu_values"]
    sliced = re.search(r"-MIG-(\d+g\.\d+gb)", value)
    if sliced is not None:  # the nodes of a single MIG strategy: each "GPU" is a slice
        return sliced[1]
    return known.get(value.lower(), value.removesuffix("-SHARED"))


def _label_values(spec: Node) -> Iterator[tuple[str, list[Node]]]:
    selector = spec.get("nodeSelector")
    for key, node in selector.mapping().items() if selector is not None else ():
        yield key, [node]
    terms = spec.get("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
    for term in terms.items() if terms is not None else []:
        for expression in _items(term, "matchExpressions"):
            name, operator = expression.get("key"), expression.get("operator")
            if name is not None and operator is not None and operator.text == "In":
                yield name.text, _items(expression, "values")


def _injected(root: Node, target: Target) -> dict[str, Arg]:
    """What the training operator sets: ``PET_NNODES`` and ``PET_NPROC_PER_NODE``."""
    found: dict[str, Arg] = {}
    per_node = root.get("spec.nprocPerNode") or root.get("spec.trainer.numProcPerNode")
    for name, value in (("PET_NNODES", target.nodes), ("PET_NPROC_PER_NODE", target.gpus_per_node)):
        if isinstance(value.value, int) and _kind(root) in {"PyTorchJob", "TrainJob"}:
            found[name] = Arg(str(value.value), root.path, value.origin.line or root.line)
    if per_node is not None and per_node.text.isdigit():
        found["PET_NPROC_PER_NODE"] = Arg(per_node.text, root.path, per_node.line)
    return found
