"""Launch configs of a tree: find them, read them, resolve each into the run it means, and estimate that."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyzer.api import Files
from analyzer.errors import InputError, PreflightError
from analyzer.findings import Skipped
from estimator import hardware
from estimator.estimation import estimate
from estimator.launch.base import LaunchConfig, Request, reader_for
from estimator.launch.cloud_files import on_cloud
from estimator.launch.defaults import with_default_gpu
from estimator.launch.places import is_in_tool_folder
from estimator.report import Estimate
from estimator.resolve.hydra_apps import with_hydra
from estimator.resolve.precedence import resolve
from estimator.resolve.recipes import enriched
from estimator.resolve.script import NOTHING_SAID
from estimator.runconfig import NOT_GIVEN, RunConfig
from estimator.sourced import Sourced, Unknown
from estimator.submission import Shell, from_words, split
from estimator.unread import CONFIG_SUFFIXES, nothing_in, too_large

SUFFIXES = (".slurm", ".sbatch", ".sh", ".bash", ".job", "Makefile", ".mk")
_PYTHON = (".py", ".ipynb")
_SUBMITS = re.compile(r"sagemaker|modal|launch|submit|cloud|vertex|estimator|\baws|remote_job|run_job", re.IGNORECASE)
MAX_CANDIDATES = 400
MAX_FOUND = 100  # launches of one listing; each is followed into its script
_SILENT = {"grad_accum": "whether the training loop accumulates gradients is not counted"}
_HARDWARE = ("gpu", "num_gpus", "nodes")
_REPORTED = (
    "model", "micro_batch", "grad_accum", "seq_len", "precision", "optimizer", "sharding", "grad_checkpointing",
    "offload", "method",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch config, the run it means, and its estimate. `problem` says why there is no estimate."""

    config: LaunchConfig
    run: RunConfig
    estimate: Estimate | None
    problem: str = ""

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the command; unresolved ones as they are written."""
        return tuple(word.text for word in self.config.command.words)

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        words = self.run.words()
        target = self.config.target
        document = {name: value for name, value in self.run.to_document().items() if name not in _HARDWARE}
        known = {name: sourced.describe() for name, sourced in words.items() if sourced.is_known}
        if target.gpus_per_node.is_known:
            known["gpus_per_node"] = target.gpus_per_node.describe()
        shown = {name: value for name, value in document.items() if name in known or name in _REPORTED}
        return {
            "path": self.config.path,
            "line": self.config.line,
            "format": self.config.format,
            "command": list(self.command),
            "target": {
                "gpu": _gpu_text(words["gpu"]),
                "gpus_per_node": _plain(target.gpus_per_node),
                "nodes": _plain(target.nodes),
            },
            "run_config": {**shown, "num_gpus": _plain(words["num_gpus"]), "nodes": _plain(words["nodes"])},
            "origins": known,
            "unknowns": list(self._unknowns()),
            "notes": [text for name, text in self.run.not_understood],
            "estimate": self.estimate.to_json() if self.estimate else None,
        }

    def to_entry(self) -> dict[str, Any]:
        """The run as a ``--run-config`` document with the origin of every value, without the estimate."""
        return self.run.to_entry()

    def _unknowns(self) -> Iterator[dict[str, Any]]:
        words = self.run.words()
        target = {"gpus_per_node": self.config.target.gpus_per_node, "nodes": self.config.target.nodes}
        answered = {"model"} if words["arch"].is_known else set()
        answered |= {"model", "seq_len"} if words["network"].is_known else set()
        wanted = {**{name: words[name] for name in ("gpu", *_REPORTED) if name not in answered}, **target}
        for name, sourced in wanted.items():
            if isinstance(sourced.value, Unknown):
                place = f" ({sourced.origin})" if sourced.origin.path else ""
                reason = sourced.value.reason
                if reason == NOT_GIVEN:
                    reason = _SILENT.get(name, "nothing in the code says")
                yield {"field": name, "reason": f"{reason}{place}"}
        if self.problem:
            yield {"field": "estimate", "reason": self.problem}


def _plain(sourced: Sourced[Any]) -> Any:
    return None if isinstance(sourced.value, Unknown) else sourced.value


def _gpu_text(gpu: Sourced[tuple[str, ...]]) -> str | list[str] | None:
    if isinstance(gpu.value, Unknown):
        return None
    names = list(dict.fromkeys(card for name in gpu.value for card in _cards(name)))
    return names[0] if len(names) == 1 else names


def _cards(name: str) -> list[str]:
    """An instance type as the cards it holds; any other name as it is written."""
    is_instance = hardware.is_instance(name) and not hardware.spelled(name)
    return [card.name for card in hardware.find(name)] if is_instance else [name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The launches of a tree, and the files that could not be read, with the reason."""

    launches: tuple[Launch, ...]
    skipped: tuple[Skipped, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The contract of ``preflight launches --format json`` (version 1)."""
        return {
            "version": 1,
            "launches": [launch.to_json() for launch in self.launches],
            "skipped": [item.to_json() for item in self.skipped],
        }


def num_candidates(files: Files) -> int:
    """How many paths may be launch files by their names."""
    return sum(1 for path in files.paths() if _may_start(path))


def _may_start(path: str) -> bool:
    if path.endswith(SUFFIXES):
        return True
    return not is_in_tool_folder(path) and (path.endswith(CONFIG_SUFFIXES) or is_submitter(path))


def is_submitter(path: str) -> bool:
    """Whether a Python file may start jobs elsewhere, by its name."""
    return path.endswith(_PYTHON) and bool(_SUBMITS.search(path)) and not is_in_tool_folder(path)


def candidates(files: Files, first: Sequence[str] = (), folder: str = "", *, with_configs: bool = True) -> list[str]:
    """Paths below `folder` that may be launch files, `first` before the others, scripts before configuration files
    (unless `with_configs` is off: most of a tree's YAML starts nothing), at most `MAX_CANDIDATES`."""
    below = sorted(path for path in files.paths() if path.startswith(folder))
    named = [path for path in below if path.endswith(SUFFIXES)]
    named += [path for path in below if is_submitter(path)]
    named += [path for path in below if with_configs and path.endswith(CONFIG_SUFFIXES) and not is_in_tool_folder(path)]
    return list(dict.fromkeys([*first, *named]))[:MAX_CANDIDATES]


def read(
    files: Files, path: str, labels: Mapping[str, str] | None = None, notes: list[Skipped] | None = None
) -> tuple[LaunchConfig, ...]:
    """The launches of one file; a file that is none has none. What cannot be read becomes a note."""
    content = files.read(path)
    reader = reader_for(path, content) if content is not None else None
    if content is None or reader is None:
        return ()
    try:
        found = reader.read(Request(path=path, content=content, files=files, labels=labels or {}))
        return tuple(_whole(files, launch, labels or {}) for launch in found)
    except PreflightError as error:
        (notes if notes is not None else []).append(Skipped(path, f"launch file not read: {error}"))
    except Exception as error:  # noqa: BLE001  boundary: one file must not hide the others, and the note is shown
        reason = f"launch file not read: {type(error).__name__} in Preflight (please report)"
        (notes if notes is not None else []).append(Skipped(path, reason))
    return ()


def _whole(files: Files, launch: LaunchConfig, labels: Mapping[str, str]) -> LaunchConfig:
    """The launch with what the configuration files of its command say, and the site's default targets."""
    return with_default_gpu(on_cloud(files, with_hydra(files, enriched(files, launch))), labels)


def typed(
    files: Files, words: Sequence[str], labels: Mapping[str, str] | None = None, shell: Shell | None = None
) -> tuple[LaunchConfig, ...]:
    """The launches of a command as one would type it (`estimator.submission.from_words`)."""
    return tuple(_whole(files, config, labels or {}) for config in from_words(files, words, labels, shell))


def resolved(
    files: Files, config: LaunchConfig, notes: list[Skipped], said: RunConfig = NOTHING_SAID
) -> tuple[Launch, ...]:
    """The launches that one command means, each estimated. What breaks becomes a note."""
    try:
        return tuple(_estimated(config, run) for run in resolve(files, config, said))
    except PreflightError as error:
        notes.append(Skipped(config.path, f"line {config.line}: {error}"))
    except Exception as error:  # noqa: BLE001  boundary: one launch must not hide the others, and the note is shown
        reason = f"line {config.line}: {type(error).__name__} in Preflight while following the command (please report)"
        notes.append(Skipped(config.path, reason))
    return ()


def _estimated(config: LaunchConfig, run: RunConfig) -> Launch:
    try:
        return Launch(config=config, run=run, estimate=estimate(run))
    except InputError as error:
        return Launch(config=config, run=run, estimate=None, problem=str(error))


def find(
    files: Files,
    paths: Sequence[str] | None = None,
    command: str | None = None,
    labels: Mapping[str, str] | None = None,
    named: Collection[str] = (),
    said: RunConfig = NOTHING_SAID,
) -> Found:
    """The launches of `paths` (default: every launch file of the tree), or of one command line a person would type.

    Of the paths that a person `named` one by one, those without a launch are skipped with the reason. `said` as
    `estimator.resolve.script.run_configs` has it."""
    notes: list[Skipped] = []
    if command is not None:
        configs = typed(files, split(command), labels)
        if not configs:
            raise InputError(f"no training command in {command[:80]!r}")
        found = [launch for config in configs for launch in resolved(files, config, notes, said)]
        return Found(launches=tuple(distinct(found)), skipped=tuple(notes))
    found = []
    names = list(paths) if paths is not None else candidates(files)
    for index, path in enumerate(names):
        if len(found) >= MAX_FOUND:
            rest = len(names) - index
            notes.append(
                Skipped(path, f"and {rest - 1} more not read: {MAX_FOUND} launches were found; name fewer paths")
            )
            break
        before = len(found) + len(notes)
        for config in read(files, path, labels, notes):
            found += resolved(files, config, notes, said)
        if path in named and len(found) + len(notes) == before:
            notes.append(nothing_in(files, path))
    notes += too_large(files, [path for path in names if path not in named])
    rest = num_candidates(files) - MAX_CANDIDATES if paths is None else 0
    if rest > 0:
        notes.append(Skipped(".", f"{rest} more files may start runs and were not read; name a folder"))
    return Found(launches=tuple(distinct(found)), skipped=tuple(notes))


def distinct(launches: Sequence[Launch]) -> list[Launch]:
    """Loops and branches that change nothing for memory are one launch: the one that assumes least."""
    kept: dict[tuple[Any, ...], Launch] = {}
    for launch in launches:
        known = {name: value for name, value in launch.run.to_document().items() if name in launch.run.words()}
        key = (launch.config.path, launch.config.line, launch.config.command.script.text, repr(known))
        before = kept.get(key)
        if before is None or len(launch.run.not_understood) < len(before.run.not_understood):
            kept[key] = launch
    return list(kept.values())
