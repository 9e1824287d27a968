"""GitHub Actions: ``run`` blocks of jobs on GPU runners. A runner's label is a GPU only through ``targets``.

A job that is another workflow (``uses: ./.github/workflows/train.yml``) is followed with the inputs that it passes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from estimator.launch.base import Arg, LaunchConfig, Request, Target, not_known
from estimator.launch.documents import Node
from estimator.launch.embedded import any_document, environment, launches, looks_like, one, roots, script_text
from estimator.launch.instances import of_instance
from estimator.sourced import Sourced

Inputs = Mapping[str, str]
_INPUT = re.compile(r"\$\{\{\s*(?:github\.event\.)?inputs\.([\w-]+)\s*\}\}")
_MAX_DEPTH = 3  # workflows that call workflows
_RUNNERS = ("runner", "runs-on", "runs_on")
_SCRIPTS = ("script", "run", "command")
"""What workflows that others call name the machine and the commands (pytorch/test-infra's ``linux_job_v2.yml``)."""


class ActionsReader:
    """Workflows under ``.github/workflows``, and composite ones elsewhere."""

    format = "github-actions"
    rank = 43

    def detect(self, path: str, content: bytes) -> bool:
        """A document with jobs that run on something and have steps, or that call a workflow with what to run."""
        if not looks_like(path, content, b"jobs:"):
            return False
        return any_document(path, content, lambda root: [*_jobs(root), *_calls(root)])

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The training commands of jobs whose runner is known to have a GPU."""
        return tuple(found for root in roots(request) for found in _workflow(request, root, _defaults(root)))


READER = ActionsReader()


def _workflow(request: Request, root: Node, inputs: Inputs) -> Iterator[LaunchConfig]:
    """The launches of one workflow whose inputs are `inputs`."""
    for job in _jobs(root):
        runner = _labels(job.get("runs-on"))
        target = _target(runner, _words(runner, inputs), request.labels) if runner is not None else None
        steps = job.get("steps")
        for step in steps.items() if target is not None and steps is not None else ():
            run = step.get("run")
            if run is None or not run.text or target is None:
                continue
            env = {**_env(root, inputs), **_env(job, inputs), **_env(step, inputs)}
            line, text = script_text(run)
            folder = step.get("working-directory") or job.get("defaults.run.working-directory")
            if folder is not None and re.fullmatch(r"[\w./\-]+", folder.text):
                text = f"cd {folder.text}; {text}"
            yield from launches(request, ActionsReader.format, (line, _filled(text, inputs)), target, env)
    for job in _calls(root):
        given = job.get("with")
        passed = {name: _filled(node.text, inputs) for name, node in given.mapping().items()} if given else {}
        if _text(job, "uses").startswith("./"):
            yield from _local(request, job, passed)
        elif given is not None:
            yield from _foreign(request, given, passed)


def _local(request: Request, job: Node, passed: Inputs) -> Iterator[LaunchConfig]:
    """A workflow of the tree, with the inputs that the job passes over its defaults."""
    path = posixpath.normpath(_text(job, "uses"))
    source = request.files.read(path)
    if source is None or request.depth >= _MAX_DEPTH or path == request.path:
        return
    inner = replace(request, path=path, content=source, depth=request.depth + 1)
    for root in roots(inner):
        for launch in _workflow(inner, root, {**_defaults(root), **passed}):
            yield replace(launch, path=request.path, line=job.line, sources=launch.sources | {path})


def _foreign(request: Request, given: Node, passed: Inputs) -> Iterator[LaunchConfig]:
    """A workflow of another repository that is told the runner and the script, by the usual names of these inputs."""
    runner = next((node for name in _RUNNERS if (node := given.get(name)) is not None), None)
    script = next((name for name in _SCRIPTS if given.get(name) is not None), "")
    target = _target(runner, _words(runner, passed), request.labels) if runner is not None else None
    node = given.get(script) if script else None
    if target is not None and node is not None:
        line, _ = script_text(node)
        yield from launches(request, ActionsReader.format, (line, passed[script]), target, {})


def _jobs(root: Node) -> Iterator[Node]:
    jobs = root.get("jobs")
    for job in jobs.mapping().values() if jobs is not None else ():
        if job.get("runs-on") is not None and job.get("steps") is not None:
            yield job


def _calls(root: Node) -> Iterator[Node]:
    """Jobs that are another workflow."""
    jobs = root.get("jobs")
    for job in jobs.mapping().values() if jobs is not None else ():
        if _text(job, "uses").partition("@")[0].endswith((".yml", ".yaml")):
            yield job


def _defaults(root: Node) -> Inputs:
    """The defaults of the inputs of a workflow that is called or started by hand."""
    found: dict[str, str] = {}
    for event in ("workflow_dispatch", "workflow_call"):
        inputs = root.get(f"on.{event}.inputs")
        for name, node in inputs.mapping().items() if inputs is not None else ():
            default = node.get("default")
            if default is not None and default.value is not None:
                found[name] = default.text
    return found


def _filled(text: str, inputs: Inputs) -> str:
    """The text with the inputs that are known; another expression stays as it is written."""
    return _INPUT.sub(lambda match: inputs.get(match[1], match[0]), text)


def _labels(runner: Node | None) -> Node | None:
    """The labels of a runner, which may stand beside its group."""
    return runner.get("labels") or runner if runner is not None else None


def _words(runner: Node, inputs: Inputs) -> list[str]:
    return [_filled(item.text, inputs) for item in runner.items()]


def _text(node: Node, key: str) -> str:
    found = node.get(key)
    return found.text if found is not None else ""


def _env(node: Node, inputs: Inputs) -> Mapping[str, Arg]:
    """The variables of a block, those that are inputs filled in."""
    block = node.get("env")
    found = dict(environment(block))
    for name, item in block.mapping().items() if block is not None else ():
        text = _filled(item.text, inputs)
        if name in found and text != item.text and "${{" not in text:
            found[name] = Arg(text, item.path, item.line)
    return found


def _target(runner: Node, words: list[str], labels: Mapping[str, str]) -> Target | None:
    """The runner's GPU: a label that `targets` maps, or one that holds an instance type (``linux.g5.12xlarge.gpu``)."""
    for word in words:
        place = runner.origin(f"runs-on: {word}")
        if word in labels:
            gpu: Sourced[tuple[str, ...]] = Sourced((labels[word],), place)
            return Target(
                gpu=gpu, gpus_per_node=not_known("GPUs of the runner", place), nodes=one("one runner", runner.path)
            )
        held = re.search(r"(?:^|\.)([a-z]\d+[a-z]*\.(?:\d*x?large|metal))", word)
        if held is not None:
            gpu, count = of_instance(held[1], place)
            if gpu.is_known:
                return Target(gpu=gpu, gpus_per_node=count, nodes=one("one runner", runner.path))
    if any(re.search(r"gpu|cuda|[ahlv]\d{2,3}\b", word.lower()) for word in words):
        reason = f"runner {', '.join(words)[:60]}: map it in `targets`"
        return Target(gpu=not_known(reason), gpus_per_node=not_known(reason), nodes=one("one runner", runner.path))
    return None
