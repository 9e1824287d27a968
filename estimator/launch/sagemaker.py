"""SageMaker SDK: estimators (and ``ModelTrainer``) built in Python files and notebooks, through the analyzer's values.

``hyperparameters`` become ``--name value`` words; without ``distribution`` one process runs on however many GPUs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from analyzer import api as analyzer
from analyzer.api import Argument, CallSite, Known, Ref, Unseen
from estimator.launch.base import OPEN_ARGUMENTS, Arg, Command, LaunchConfig, Request, Target, not_known
from estimator.launch.embedded import launches
from estimator.launch.instances import of_instances
from estimator.launch.topology import processes
from estimator.sourced import Origin, Sourced

_ESTIMATORS = frozenset(
    {
        f"sagemaker.{name}"
        for name in (
            "pytorch.PyTorch", "pytorch.estimator.PyTorch", "huggingface.HuggingFace",
            "huggingface.estimator.HuggingFace", "estimator.Estimator", "estimator.Framework",
        )
    }
)  # fmt: skip
_TRAINERS = frozenset(
    {
        f"sagemaker.{name}.ModelTrainer"
        for name in ("modules.train", "modules.train.model_trainer", "train", "train.model_trainer")
    }
)
_PARTS = ("SourceCode", "Compute", "Torchrun", "MPI")
_FOLDERS = ("modules.configs", "modules.distributed", "train.configs", "train.distributed", "core.training.configs")
_CONFIGS = frozenset({f"sagemaker.{folder}.{name}" for folder in _FOLDERS for name in _PARTS})
_SETTER = "*.set_hyperparameters"
_MAY_BE = re.compile(rb"sagemaker[\s\S]*\b(?:PyTorch|HuggingFace|Estimator|ModelTrainer)\s*\(")
_EACH_GPU = ("torch_distributed", "pytorchddp", "pytorchxla")

Arguments = Mapping[str, tuple[Argument, ...]]


class SageMakerReader:
    """Python files and notebooks that start training jobs with the SageMaker SDK."""

    format = "sagemaker"
    rank = 30

    def detect(self, path: str, content: bytes) -> bool:
        """A Python program that imports the SDK and builds an estimator with an instance type."""
        is_python = path.endswith((".py", ".ipynb"))
        return is_python and b"instance_type" in content and bool(_MAY_BE.search(content))

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """One launch per estimator."""
        wanted = _ESTIMATORS | _TRAINERS | _CONFIGS | {_SETTER}
        sites = analyzer.call_sites(request.files, request.path, wanted)
        estimators = [site for site in sites if site.callee in _ESTIMATORS | _TRAINERS]
        setters = [site for site in sites if site.callee == _SETTER]
        parts = {(site.origin.path, site.origin.line): site for site in sites if site.callee in _CONFIGS}
        found: dict[tuple[str, int], list[LaunchConfig]] = {}
        for site in estimators:
            given = _whole(site, parts) if site.callee in _TRAINERS else site.arguments
            later = setters if len(estimators) == 1 or not setters else None
            key = site.origin.path, site.origin.line
            found.setdefault(key, list(_Job(request, site, given, later).launches()))
        return tuple(launch for group in found.values() for launch in group)


READER = SageMakerReader()


def _whole(site: CallSite, parts: Mapping[tuple[str, int], CallSite]) -> Arguments:
    """``ModelTrainer``'s arguments with those of the configuration objects it is given, as an estimator's."""
    given = dict(site.arguments)
    for name in ("source_code", "compute", "distributed", "distributed_runner"):
        for item in site.arguments.get(name, ()):
            part = parts.get((item.origin.path, item.origin.line))
            if part is not None:
                given.update(part.arguments)
                if part.callee.endswith(("Torchrun", "MPI")):
                    given["distributed"] = site.arguments[name]
    return given


class _Job:
    """One estimator: `given` are its arguments, `later` the calls that set hyperparameters (None: whose?)."""

    def __init__(self, request: Request, site: CallSite, given: Arguments, later: list[CallSite] | None) -> None:
        self.request = request
        self.site = site
        self.given = given
        self.later = later
        self.path, self.line = site.origin.path, site.origin.line

    def launches(self) -> Iterator[LaunchConfig]:
        entry = self.word("entry_point") or self.word("entry_script")
        command = self.word("command")
        folder = self.word("source_dir")
        cwd = self.folder(folder)
        if entry is None and command is not None and command.is_known:
            text = f"cd {cwd}\n{command.text}" if re.fullmatch(r"[\w./\-]+", cwd) else command.text
            found = launches(self.request, "sagemaker", (max(command.line - 1, 1), text), self.target(), self.env())
            yield from found
            return
        if entry is None:
            return
        if entry.text.endswith(".sh") and entry.is_known:
            text = f"cd {cwd}\nbash {entry.text}" if re.fullmatch(r"[\w./\-]+", f"{cwd}{entry.text}") else ""
            yield from launches(self.request, "sagemaker", (max(entry.line - 1, 1), text), self.target(), self.env())
            return
        yield self.launch(entry, cwd)

    def launch(self, entry: Arg, cwd: str) -> LaunchConfig:
        target = self.target()
        launcher, options = self.launcher()
        argv = self.argv()
        script = self.script(entry)
        words = (Arg(launcher, self.path, self.line), script, *argv)
        command = Command(
            words=words, launcher=launcher, script=script, is_module=False, argv=argv, env=self.env(), options=options,
            cwd=cwd,
        )  # fmt: skip
        notes = tuple(f"the image pins transformers {word.text}" for word in self.words("transformers_version"))
        return LaunchConfig(
            path=self.request.path, line=self.line, format="sagemaker", target=target,
            processes=processes(command, target, None), command=command, notes=notes,
        )  # fmt: skip

    def script(self, entry: Arg) -> Arg:
        """The entry point; a script that is cloned from elsewhere is not a file of this repository."""
        elsewhere = next((item for item in self.given.get("git_config", ()) if not _is_none(item)), None)
        folder = self.word("source_dir")
        if elsewhere is not None or (folder is not None and folder.text.startswith("s3://")):
            reason = f"{entry.text} comes from another repository or bucket"
            return Arg(f"elsewhere:{entry.text.replace('/', ':')}", entry.path, entry.line, reason)
        if folder is not None and not folder.is_known:
            return entry
        return entry

    # --- hardware ---------------------------------------------------------------------------------------------

    def target(self) -> Target:
        items = self.given.get("instance_type", ())
        known = [item for item in items if isinstance(item, Known) and isinstance(item.value, str)]
        nodes = self.number("instance_count") or Sourced(1, Origin("one instance", self.path, self.line))
        if len(known) != len(items) or not known:
            hidden = next((item.reason for item in items if isinstance(item, Unseen)), "no instance type is given")
            unknown = not_known(f"instance_type: {hidden}")
            return Target(gpu=unknown, gpus_per_node=unknown, nodes=nodes)
        place = known[0].origin
        origin = Origin(f"instance_type {known[0].value}", place.path, place.line)
        gpu, count = of_instances(tuple(str(item.value) for item in known), origin)
        return Target(gpu=gpu, gpus_per_node=count, nodes=nodes)

    def launcher(self) -> tuple[str, dict[str, Arg]]:
        """One process per GPU where ``distribution`` says so, else one process."""
        every = Arg("gpu", self.path, self.line)
        if self.given.get("distributed") and not all(map(_is_none, self.given["distributed"])):
            per_node = self.word("process_count_per_node")
            return "torchrun", {"--nproc-per-node": per_node or every}
        for item in self.given.get("distribution", ()):
            place = Arg("gpu", item.origin.path, item.origin.line)
            if _is_none(item):
                continue
            if not isinstance(item, Ref) or item.items is None:
                reason = item.reason if isinstance(item, Unseen) else "distribution is not written out"
                return "torchrun", {"--nproc-per-node": Arg("$DISTRIBUTION", place.path, place.line, reason)}
            kinds = dict(item.items)
            if any(_is_enabled(kinds.get(name, ())) for name in _EACH_GPU) or "smdistributed" in kinds:
                return "torchrun", {"--nproc-per-node": place}
            if _is_enabled(kinds.get("mpi", ())):
                inner = dict(_entries(kinds["mpi"]))
                given = _arg(inner.get("processes_per_host", ()), "processes_per_host")
                return "torchrun", {"--nproc-per-node": given or place}
        return "python", {}

    # --- words ------------------------------------------------------------------------------------------------

    def argv(self) -> tuple[Arg, ...]:
        items = self.given.get("hyperparameters", ())
        words: dict[str, Arg | None] = {}
        for name, value in _entries(items):
            words[str(name)] = _arg(value, str(name))
        for site in self.later or ():
            words.update({name: _arg(value, name) for name, value in site.arguments.items() if not name.isdigit()})
        found = [part for name, value in words.items() if value is not None for part in _pair(name, value)]
        is_open = any(not (isinstance(item, Ref) and item.items is not None) and not _is_none(item) for item in items)
        if is_open or len(items) > 1 or self.later is None:
            reason = "hyperparameters that the file does not write out"
            found.append(Arg(OPEN_ARGUMENTS, self.path, self.line, reason))
        return tuple(found)

    def env(self) -> dict[str, Arg]:
        found = {str(name): _arg(value, str(name)) for name, value in _entries(self.given.get("environment", ()))}
        return {name: value for name, value in found.items() if value is not None and name.isidentifier()}

    def folder(self, source: Arg | None) -> str:
        """The folder the job runs in: `source_dir` from the file's own folder or from the root."""
        here = posixpath.dirname(self.request.path)
        if source is None or not source.is_known:
            return here or "."
        known = self.request.files.paths()
        for base in (here, "."):
            path = posixpath.normpath(posixpath.join(base, source.text))
            if not path.startswith(("..", "/")) and any(name.startswith(f"{path}/") for name in known):
                return path
        return posixpath.normpath(source.text).lstrip("./") or "."

    def words(self, name: str) -> list[Arg]:
        found = _arg(self.given.get(name, ()), name)
        return [found] if found is not None else []

    def word(self, name: str) -> Arg | None:
        return _arg(self.given.get(name, ()), name)

    def number(self, name: str) -> Sourced[int] | None:
        word = self.word(name)
        if word is None:
            return None
        origin = Origin(f"{name} {word.text}", word.path, word.line)
        if word.is_known and word.text.isdigit() and 0 < int(word.text) <= 65536:
            return Sourced(int(word.text), origin)
        return not_known(word.unknown or f"{name} {word.text[:40]!r} is not a number", origin)


def _is_none(item: Argument) -> bool:
    return isinstance(item, Known) and item.value in (None, False)


def _entries(items: tuple[Argument, ...]) -> Iterator[tuple[Any, tuple[Argument, ...]]]:
    for item in items:
        if isinstance(item, Ref) and item.items is not None:
            yield from item.items


def _is_enabled(items: tuple[Argument, ...]) -> bool:
    inner = dict(_entries(items))
    return any(isinstance(item, Known) and item.value is True for item in inner.get("enabled", ()))


def _arg(items: tuple[Argument, ...], name: str) -> Arg | None:
    """One value as a word; None where it is not given, an unknown word where the text does not decide it."""
    known = [item for item in items if isinstance(item, Known)]
    if not items or (len(known) == len(items) and all(item.value is None for item in known)):
        return None
    place = items[0].origin
    values = {str(item.value) for item in known}
    if len(known) == len(items) and len(values) == 1:
        return Arg(values.pop(), place.path, place.line)
    hidden = next((item.reason for item in items if isinstance(item, Unseen)), "")
    reason = hidden or (" or ".join(sorted(values)) if values else f"{name} is no constant")
    shown = f"${re.sub(r'[^A-Za-z0-9_]', '_', name).upper()}"
    return Arg(shown, place.path, place.line, reason, holes=((shown, reason),))


def _pair(name: str, value: Arg) -> tuple[Arg, Arg]:
    return Arg(f"--{name}", value.path, value.line), value
