"""A command as one would type it: ``sbatch -N 4 train.slurm ARGS``, ``bash run.sh ARGS`` or a training command itself.

`Shell` is what the terminal adds to its words: the folder it stands in and its environment. Slurm hands the whole
environment to the job unless ``--export`` says otherwise, so ``BATCH=64 sbatch train.slurm`` is another job.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analyzer.api import Files
from analyzer.errors import InputError
from estimator.launch.base import Arg, LaunchConfig, Reader, Request, readers
from estimator.launch.places import find_file
from estimator.resolve.command import table

TYPED = "command line"
ENVIRONMENT = "environment"
_NOT_INHERITED = re.compile(r"(?:SLURM|SBATCH|SRUN|CUDA_VISIBLE|NVIDIA_VISIBLE|PMI|OMPI|LS_COLORS|BASH_FUNC)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MAX_VALUE = 4_096
_PRESET = ("partition", "constraint", "gres", "gpus", "gpus-per-node", "gpus-per-task", "export")
"""Options of ``sbatch`` that choose the hardware or the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Where a command is typed. `cwd` is a folder of the tree ("." is its root)."""

    cwd: str = "."
    environment: Mapping[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, Arg]:
        """The environment as variables of a script; what a scheduler sets itself is left to the scheduler."""
        return {
            name: Arg(value, ENVIRONMENT, 1, name=name)
            for name, value in self.environment.items()
            if _NAME.fullmatch(name) and not _NOT_INHERITED.match(name) and len(value) <= _MAX_VALUE
        }


def split(command: str) -> list[str]:
    """The words of a command. Raises `InputError` where there are none."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"the command cannot be split into words: {error}") from None
    if not words:
        raise InputError("the command is empty")
    return words


def from_words(
    files: Files, words: Sequence[str], labels: Mapping[str, str] | None = None, shell: Shell | None = None
) -> tuple[LaunchConfig, ...]:
    """The launches of a command, none where it starts no training. Raises `InputError` for a batch script that is not
    in the tree."""
    shell = shell or Shell()
    batch = batch_request(files, words, labels or {}, shell)
    if batch is not None:
        return _reader("slurm").read(batch)
    request = Request(
        path=TYPED, content=shlex.join(words).encode(), files=files, labels=labels or {}, cwd=shell.cwd,
        environment=shell.variables(),
    )  # fmt: skip
    return _reader("shell").read(request)


def _reader(form: str) -> Reader:
    return next(reader for reader in readers() if reader.format == form)


class NoScript(InputError):
    """The batch script that a command names is no file of the tree. `name` is what the command calls it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"sbatch: {name!r} is no batch script of this tree")
        self.name = name


def batch_request(files: Files, words: Sequence[str], labels: Mapping[str, str], shell: Shell) -> Request | None:
    """What ``sbatch …`` submits; None for another command. Raises `InputError` where its script is not in the tree."""
    if words[0].rsplit("/", 1)[-1] != "sbatch":
        return None
    args = [Arg(word, TYPED, 1) for word in words[1:]]
    at = _script_at(args, files, shell.cwd)
    wrapped = _option(args[:at], "--wrap")
    path = find_file(files, args[at].text, shell.cwd, "") if at < len(args) else None
    if path is None and wrapped is None:
        if at < len(args):
            raise NoScript(args[at].text)
        raise InputError("sbatch: it names no batch script")
    content = files.read(path) if path is not None else f"#!/bin/sh\n{wrapped}\n".encode()
    if content is None:  # it runs all the same: what nobody has read is no answer
        raise InputError(f"sbatch: {path!r} cannot be read, or is too large to be")
    options = (*_preset(shell.environment), *args[:at])
    return Request(
        path=path or TYPED,
        content=content,
        files=files,
        labels=labels,
        options=options,
        argv=tuple(args[at + 1 :]),
        cwd=_folder(shell.cwd, _option(options, "--chdir", "-D")),
        environment=_exported(shell.variables(), _option(options, "--export")),
    )


def _preset(environment: Mapping[str, str]) -> list[Arg]:
    """``SBATCH_GRES=gpu:1``: before what is typed, after the script's directives (sbatch(1), input environment)."""
    return [
        Arg(f"--{name}={value}", ENVIRONMENT, 1)
        for name in _PRESET
        if (value := environment.get(f"SBATCH_{name.upper().replace('-', '_')}"))
    ]


def _script_at(args: Sequence[Arg], files: Files, cwd: str) -> int:
    """The index of the batch script: the first word that is neither an option nor the value of one.

    Raises `InputError` where what looks like an option's value is a script itself: Slurm takes abbreviations
    (``--hol`` is ``--hold``, which has no value) and has options that no table of ours knows.
    """
    flags = table()["sbatch"]["flags"]
    index = 0
    while index < len(args) and args[index].text.startswith("-") and args[index].text not in {"-", "--"}:
        text = args[index].text
        is_whole = "=" in text or text in flags or (len(text) > 2 and not text.startswith("--"))  # -N2
        value = args[index + 1].text if text.startswith("--") and not is_whole and index + 1 < len(args) else ""
        path = find_file(files, value, cwd, "") if value else None
        if path is not None and (files.read(path) or b"").startswith(b"#!"):
            raise InputError(f"sbatch: {value!r} is a script: if it is the value of {text}, write {text}={value}")
        index += 1 if is_whole else 2
    return index + 1 if index < len(args) and args[index].text == "--" else index


def _option(args: Sequence[Arg], *names: str) -> str | None:
    """The value of an option of ``sbatch``, the last one given."""
    found = None
    for index, arg in enumerate(args):
        name, has_value, value = arg.text.partition("=")
        if name in names and has_value:
            found = value
        elif arg.text in names and index + 1 < len(args):
            found = args[index + 1].text
    return found


def _folder(cwd: str, named: str | None) -> str:
    """The working folder of the job. One outside the tree (an absolute place of the cluster) is not followed."""
    place = posixpath.normpath(posixpath.join(cwd, named or "."))
    return cwd if place.startswith(("/", "../")) or place == ".." else place


def _exported(variables: Mapping[str, Arg], export: str | None) -> dict[str, Arg]:
    """What ``--export`` leaves: everything without it or with ALL; ``NAME`` and ``NAME=value`` name single ones."""
    if export is None or export == "ALL":
        return dict(variables)
    words = export.split(",")
    kept = dict(variables) if "ALL" in words else {}
    for word in words:
        name, has_value, value = word.partition("=")
        if has_value and _NAME.fullmatch(name):
            kept[name] = Arg(value, TYPED, 1, name=name)
        elif name in variables:
            kept[name] = variables[name]
    return kept
