"""What a command file defines, and what it is given.

A command is one file of this folder: its name is the command, its docstring the help (first line: the summary), and it
holds ``USAGE``, ``WHO`` and ``answer(words, context) -> str`` (Markdown). Nothing is registered anywhere else.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Who = Literal["author_or_write", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What a command may know. `head_sha` is the head when the command was read, and stays pinned.

    `run_configs` holds the run config documents of the pull request's launch configs by path, or by path and line where
    a file has several commands; ``origins`` in them say where each value is from (DESIGN section 7).
    """

    head_sha: str
    run_configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandFile:
    """One command file, read."""

    name: str
    summary: str
    details: str
    usage: str
    who: Who
    answer: Callable[[tuple[str, ...], CommandContext], str]


def command_file(name: str) -> CommandFile:
    """The file of the command `name`, which must exist."""
    module = importlib.import_module(f"bot.core.commands.{name}")
    summary, _, details = (module.__doc__ or "").strip().partition("\n")
    return CommandFile(name, summary, details.strip(), module.USAGE, module.WHO, module.answer)
