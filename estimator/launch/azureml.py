"""Azure ML command jobs: ``command``, ``resources`` and ``distribution``. A cluster's GPU is state of the workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from estimator.launch.base import LaunchConfig, Processes, Request, Target, not_known
from estimator.launch.documents import Node
from estimator.launch.embedded import any_document, environment, launches, looks_like, number, one, roots, script_text
from estimator.sourced import Sourced


class AzureReader:
    """``az ml job create`` files, and the command jobs of a pipeline."""

    format = "azureml"
    rank = 46

    def detect(self, path: str, content: bytes) -> bool:
        """A job with a command and an environment or a compute."""
        if not looks_like(path, content, b"command:"):
            return False
        return any_document(path, content, lambda root: list(_jobs(root)))

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The launches of every command job."""
        found: list[LaunchConfig] = []
        for root in roots(request):
            for job in _jobs(root):
                found += self._job(request, job, root)
        return tuple(found)

    def _job(self, request: Request, job: Node, root: Node) -> list[LaunchConfig]:
        command = job.get("command")
        if command is None:
            return []
        target = _target(job, root, request.labels)
        line, text = script_text(command)
        text = _with_inputs(text, job.get("inputs"))
        folder = job.get("code")
        if folder is not None and folder.text:
            text = f"cd {folder.text.strip()} && {text}" if re.fullmatch(r"[\w./\-]+", folder.text.strip()) else text
        started = number(job.get("distribution.process_count_per_instance"), "process_count_per_instance")
        found = launches(request, self.format, (line, text), target, environment(job.get("environment_variables")))
        if started is None:
            return list(found)
        return [replace(one, processes=Processes(per_node=started, nodes=target.nodes)) for one in found]


READER = AzureReader()


def _jobs(root: Node) -> Iterator[Node]:
    """The file itself, and the jobs of a pipeline inside it."""
    inner = root.get("jobs")
    for job in [root, *(inner.mapping().values() if inner is not None else ())]:
        has_place = any(job.get(key) is not None for key in ("compute", "environment", "distribution"))
        if job.get("command") is not None and has_place and job.get("services") is None:
            yield job


def _target(job: Node, root: Node, labels: Mapping[str, str]) -> Target:
    nodes = number(job.get("resources.instance_count"), "instance_count") or one("one instance", job.path)
    started = number(job.get("distribution.process_count_per_instance"), "process_count_per_instance")
    instance, compute = job.get("resources.instance_type"), job.get("compute") or root.get("compute")
    gpu: Sourced[tuple[str, ...]] = not_known("the file names no instance type")
    if instance is not None and instance.text:
        gpu = Sourced((instance.text,), instance.origin(f"instance_type: {instance.text}"))
    elif compute is not None:
        name = compute.text.removeprefix("azureml:")
        mapped = labels.get(name)
        reason = f"the GPU of cluster {name} is state of the workspace: map it in `targets`"
        gpu = Sourced((mapped,), compute.origin()) if mapped else not_known(reason, compute.origin())
    return Target(gpu=gpu, gpus_per_node=started or not_known("GPUs per instance"), nodes=nodes)


def _with_inputs(text: str, inputs: Node | None) -> str:
    """``${{inputs.name}}`` replaced by a literal of the file."""

    def literal(match: re.Match[str]) -> str:
        node = inputs.get(match[1]) if inputs is not None else None
        return node.text if node is not None and node.text and not node.mapping() else match[0]

    return re.sub(r"\$\{\{\s*inputs\.(\w+)\s*\}\}", literal, text)
