"""What a reader of launch files must do, and what it answers.

A *launch config* says what runs where. One file per format holds a `Reader`; it is found by its file name, and its
`detect` decides by content. A reader never executes anything, and says what it cannot know and why.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import estimator.launch
from analyzer.api import Files
from analyzer.errors import PreflightError
from estimator.sourced import Origin, Sourced, Unknown

OPEN_ARGUMENTS = "$ARGUMENTS"
"""A word that stands for any arguments: nothing the script says by default is certain beside it."""


class UnreadableLaunch(PreflightError):
    """One launch file cannot be read (too large, too deeply nested, binary…). The others are unaffected."""


@dataclass(frozen=True, slots=True)
class Arg:
    """One word of a command. `unknown` is the reason when the text does not show the whole word; `text` then holds
    the part that cannot be resolved as it is written (``--steps=$STEPS``); `holes` are those parts with their reasons.
    `name` is the variable it came through."""

    text: str
    path: str
    line: int
    unknown: str = ""
    name: str = ""
    holes: tuple[tuple[str, str], ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the word is resolved completely."""
        return not self.unknown

    def origin(self, words: str = "") -> Origin:
        """Where the word was written; `words` are those a person would look for."""
        shown = words or self.text
        return Origin(f"{shown} through ${self.name}" if self.name else shown, self.path, self.line)


def not_known(reason: str, origin: Origin | None = None) -> Sourced[Any]:
    """A sourced "do not know"."""
    return Sourced(Unknown(reason), origin or Origin(reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The hardware that a launch file asks for. `gpu` holds the alternatives as they are written, never guesses."""

    gpu: Sourced[tuple[str, ...]]
    gpus_per_node: Sourced[int]
    nodes: Sourced[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """What the launcher starts: training processes per node, and nodes."""

    per_node: Sourced[int]
    nodes: Sourced[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One launch command taken apart. `script` is a path or a dotted module (`is_module`), `argv` what follows it.

    `words` is the whole command, `configs` the files that launcher options name.
    """

    words: tuple[Arg, ...]
    launcher: str
    script: Arg
    is_module: bool
    argv: tuple[Arg, ...]
    env: Mapping[str, Arg] = field(default_factory=dict)
    options: Mapping[str, Arg] = field(default_factory=dict)
    cwd: str = "."

    @property
    def line(self) -> int:
        """The line the command starts in."""
        return self.words[0].line


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchConfig:
    """One command of one launch file, with everything the file says about it.

    `overrides` are run-config fields that the launcher's own options set (precision, sharding…); `recipe` those of a
    configuration file that is the whole run, where the command starts one; `sources` the files it was made from.
    """

    path: str
    line: int
    format: str
    target: Target
    processes: Processes
    command: Command
    overrides: Mapping[str, Sourced[Any]] = field(default_factory=dict)
    recipe: Mapping[str, Sourced[Any]] | None = None
    sources: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One file to read. `options` are the submit options of a command line, which beat the file (``sbatch -N 4``);
    `labels` maps a partition or constraint to a GPU or instance name. `depth` counts the files that submitted it. `cwd`
    and `environment` are those of a person who types a command; a file alone has none."""

    path: str
    content: bytes
    files: Files
    labels: Mapping[str, str] = field(default_factory=dict)
    options: tuple[Arg, ...] = ()
    argv: tuple[Arg, ...] | None = None
    depth: int = 0
    cwd: str = "."
    environment: Mapping[str, Arg] = field(default_factory=dict)


class Reader(Protocol):
    """One format. `rank` decides who is asked first (smaller first): the narrower format."""

    format: str
    rank: int

    def detect(self, path: str, content: bytes) -> bool:
        """Whether the file is of this format, by its content (the name may only help)."""

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """Every launch command of the file. Raises `UnreadableLaunch` with the reason."""


@lru_cache(maxsize=1)
def readers() -> tuple[Reader, ...]:
    """The readers of this folder (modules with a ``READER``), narrowest first."""
    names = [module.name for module in pkgutil.iter_modules(estimator.launch.__path__)]
    modules = [importlib.import_module(f"estimator.launch.{name}") for name in sorted(names) if name != "base"]
    found: list[Reader] = [module.READER for module in modules if hasattr(module, "READER")]
    return tuple(sorted(found, key=lambda reader: reader.rank))


def reader_for(path: str, content: bytes) -> Reader | None:
    """The reader of a file; None when it is no launch file we know."""
    return next((reader for reader in readers() if reader.detect(path, content)), None)
