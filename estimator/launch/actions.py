"""GitHub Actions: ``run`` blocks of jobs on GPU runners. A runner's label is a GPU only through ``targets``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from estimator.launch.base import Arg, LaunchConfig, Request, Target, not_known
from estimator.launch.documents import Node
from estimator.launch.embedded import any_document, environment, launches, looks_like, one, roots, script_text
from estimator.launch.instances import of_instance
from estimator.sourced import Sourced


class ActionsReader:
    """Workflows under ``.github/workflows``, and composite ones elsewhere."""

    format = "github-actions"
    rank = 43

    def detect(self, path: str, content: bytes) -> bool:
        """A document with jobs that run on something and have steps."""
        if not looks_like(path, content, b"runs-on", b"run:"):
            return False
        return any_document(path, content, lambda root: list(_jobs(root)))

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The training commands of jobs whose runner is known to have a GPU."""
        found: list[LaunchConfig] = []
        for root in roots(request):
            for job in _jobs(root):
                target = _target(job, request.labels)
                steps = job.get("steps")
                for step in steps.items() if target is not None and steps is not None else ():
                    run = step.get("run")
                    if run is None or not run.text or target is None:
                        continue
                    env = {**_env(root), **_env(job), **_env(step)}
                    line, text = script_text(run)
                    folder = step.get("working-directory") or job.get("defaults.run.working-directory")
                    if folder is not None and re.fullmatch(r"[\w./\-]+", folder.text):
                        text = f"cd {folder.text}; {text}"
                    found += launches(request, self.format, (line, text), target, env)
        return tuple(found)


READER = ActionsReader()


def _jobs(root: Node) -> Iterator[Node]:
    jobs = root.get("jobs")
    for job in jobs.mapping().values() if jobs is not None else ():
        if job.get("runs-on") is not None and job.get("steps") is not None:
            yield job


def _env(node: Node) -> Mapping[str, Arg]:
    return environment(node.get("env"))


def _target(job: Node, labels: Mapping[str, str]) -> Target | None:
    """The runner's GPU: a label that `targets` maps, or one that holds an instance type (``linux.g5.12xlarge.gpu``)."""
    runner = job.get("runs-on")
    runner = runner.get("labels") or runner if runner is not None else None
    words = [item.text for item in runner.items()] if runner is not None else []
    for word in words:
        place = runner.origin(f"runs-on: {word}") if runner is not None else job.origin()
        if word in labels:
            gpu: Sourced[tuple[str, ...]] = Sourced((labels[word],), place)
            return Target(
                gpu=gpu, gpus_per_node=not_known("GPUs of the runner", place), nodes=one("one runner", job.path)
            )
        held = re.search(r"(?:^|\.)([a-z]\d+[a-z]*\.(?:\d*x?large|metal))", word)
        if held is not None:
            gpu, count = of_instance(held[1], place)
            if gpu.is_known:
                return Target(gpu=gpu, gpus_per_node=count, nodes=one("one runner", job.path))
    if any(re.search(r"gpu|cuda|[ahlv]\d{2,3}\b", word.lower()) for word in words):
        reason = f"runner {', '.join(words)[:60]}: map it in `targets`"
        return Target(gpu=not_known(reason), gpus_per_node=not_known(reason), nodes=one("one runner", job.path))
    return None
