"""Plain shell scripts: the training commands a person would start by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from estimator.launch.base import Arg, Command, LaunchConfig, Request, Target, not_known, readers
from estimator.launch.shell_here import HereText
from estimator.launch.shell_run import Run, Started
from estimator.launch.shell_state import State
from estimator.launch.submitters import MAX_DEPTH, launches_of, submitted
from estimator.launch.topology import count, processes, visible_devices
from estimator.resolve.command import Parsed, parse, table
from estimator.resolve.configfiles import with_accelerate_file
from estimator.sourced import Sourced

_STARTS_PYTHON = re.compile(
    rb"python|torchrun|accelerate|deepspeed|\.py\b|\.sh\b|\b(?:sbatch|sky|modal|dstack|kubectl|oc|az|gcloud|det)\b"
    rb"|\b(?:tune|litgpt|yolo|axolotl|llamafactory-cli|trl|lightning|ray)\b"
)
_SHEBANG = re.compile(rb"#!\s*\S*/(?:env\s+(?:-\S+\s+)*)?(?:ba|z|da|k)?sh\b")
_DISTRIBUTED = {"torchrun", "accelerate", "deepspeed"}

TargetOf = Callable[[Command, Mapping[str, Arg]], Target]
TasksOf = Callable[[Mapping[str, Arg]], "Sourced[int] | None"]


def is_shell(path: str, content: bytes) -> bool:
    """Whether a file is a shell script, by its first line or its name."""
    return bool(_SHEBANG.match(content[:200])) or path.endswith((".sh", ".bash"))


class ShellReader:
    """A script without a scheduler: the hardware is whatever machine it is started on."""

    format = "shell"
    rank = 90

    def detect(self, path: str, content: bytes) -> bool:
        """A shell script that may start Python."""
        return is_shell(path, content) and bool(_STARTS_PYTHON.search(content[:1_000_000]))

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """Every launch of the script."""
        return launches_in(request, self.format, {}, _own_target, lambda options: None)


READER = ShellReader()


def launches_in(
    request: Request, format_name: str, variables: Mapping[str, Arg], target_of: TargetOf, tasks_of: TasksOf
) -> tuple[LaunchConfig, ...]:
    """The launches of a shell script, once per distinct reading. `variables` are set by the scheduler."""
    run = Run(files=request.files, path=request.path, is_wanted=_is_wanted)
    known = {**request.environment, **variables}
    state = State(variables=known, positional=request.argv, cwd=request.cwd, script=request.path)
    state.exported |= set(known)
    run.script(request.content, state)
    found: dict[tuple[Any, ...], LaunchConfig] = {}
    for started in run.started:
        parsed = parse(started.words, started.env, started.cwd)
        command = submitted(started.words) if parsed is None else None
        if command is not None:
            line = next((word.line for word in started.words if word.path == request.path), 1)
            for launch in launches_of(command, request, started.cwd, line):
                found.setdefault(_identity(launch), launch)
        if parsed is not None:
            launch = _launch(request, format_name, started, parsed, target_of, tasks_of)
            found.setdefault(_identity(launch), _with_notes(launch, tuple(run.notes)))
    for text in run.submitted:
        for launch in _submitted_text(request, text):
            found.setdefault(_identity(launch), launch)
    return tuple(found.values())


def _submitted_text(request: Request, text: HereText) -> tuple[LaunchConfig, ...]:
    """The launches of a batch script that the script itself holds."""
    reader = next(reader for reader in readers() if reader.format == "slurm")
    if request.depth >= MAX_DEPTH:
        return ()
    known = {**request.environment, **text.env}
    inner = replace(
        request, content=text.padded(), options=text.words[1:], depth=request.depth + 1, environment=known, cwd=text.cwd
    )
    return reader.read(inner)


def _is_wanted(words: Sequence[Arg]) -> bool:
    return parse(words, {}) is not None or submitted(words) is not None


def _launch(
    request: Request, format_name: str, started: Started, parsed: Parsed, target_of: TargetOf, tasks_of: TasksOf
) -> LaunchConfig:
    command = with_accelerate_file(parsed.command, request.files, request.path)
    target = target_of(command, parsed.wrapper_options)
    notes = tuple(f"assumes {text}" for text in started.assumed)
    return LaunchConfig(
        path=request.path,
        line=_line_in(request.path, command),
        format=format_name,
        target=target,
        processes=processes(command, target, tasks_of(parsed.wrapper_options)),
        command=command,
        overrides=launcher_overrides(command),
        notes=notes,
    )


def _line_in(path: str, command: Command) -> int:
    """The first line of the command that is in the launch file itself (words may come from a sourced file)."""
    return next((word.line for word in command.words if word.path == path and not word.name), command.line) or 1


def _with_notes(launch: LaunchConfig, notes: tuple[str, ...]) -> LaunchConfig:
    if not notes:
        return launch
    return LaunchConfig(
        path=launch.path, line=launch.line, format=launch.format, target=launch.target, processes=launch.processes,
        command=launch.command, overrides=launch.overrides, notes=(*launch.notes, *dict.fromkeys(notes)),
    )  # fmt: skip


def _identity(launch: LaunchConfig) -> tuple[Any, ...]:
    env = tuple(sorted((name, value.text) for name, value in launch.command.env.items()))
    return launch.line, tuple(word.text for word in launch.command.words), env, launch.command.cwd


def launcher_overrides(command: Command) -> dict[str, Sourced[Any]]:
    """Run-config fields that the launcher's own options set."""
    found: dict[str, Sourced[Any]] = {}
    for row in table()["sets"]:
        arg = command.options.get(row["option"])
        if row["launcher"] != command.launcher or arg is None:
            continue
        origin = arg.origin(f"{row['option']} {arg.text}")
        if arg.unknown:
            found[row["field"]] = not_known(arg.unknown, origin)
        elif row.get("is_number"):
            found[row["field"]] = count(arg, row["option"])
        elif "value" in row or arg.text in row.get("values", {}):
            found[row["field"]] = Sourced(row.get("value") or row["values"][arg.text], origin)
    return found


def _is_counted(command: Command) -> bool:
    """A program that is told how many processes to start on each machine (``tune run --nproc_per_node``)."""
    known: Mapping[str, Mapping[str, Any]] = {row["name"]: row for row in table()["launcher"]}
    row = known.get(command.launcher, {})
    return bool(row.get("recipe")) and "processes_per_node" in row


def _own_target(command: Command, options: Mapping[str, Arg]) -> Target:
    unknown_gpu = not_known("the file does not say which GPU it runs on")
    visible = visible_devices(command.env)
    nothing = Target(
        gpu=unknown_gpu, gpus_per_node=not_known("no GPU count in the file"), nodes=not_known("one machine")
    )
    started = processes(command, nothing, None)
    if visible is None and (command.launcher in _DISTRIBUTED or _is_counted(command)):
        visible = started.per_node
    return Target(gpu=unknown_gpu, gpus_per_node=visible or nothing.gpus_per_node, nodes=started.nodes)
