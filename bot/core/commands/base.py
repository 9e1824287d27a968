"""What a command file defines, and what it is given.

A command is one file of this folder: its name is the command, its docstring the help (first line: the summary), and it
holds ``USAGE``, ``WHO`` and ``answer(words, context)``. The answer is Markdown, or an `Act` for the worker to carry
out: that is ``bot/queue/acts/<the same name>.py``. A command that looks at the pull request's code says
``READS = "code"`` (``"launches"``: the run configs of its launch configs as well) and runs in the child that analyses;
its act is built again from JSON by the type in ``ACT``. Nothing is registered anywhere else.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from bot.core.review_input import ReviewInput

Who = Literal["author_or_write", "write"]
Reads = Literal["nothing", "code", "launches"]


@dataclass(frozen=True, slots=True)
class Act:
    """What a command wants done on GitHub; each command that acts has its own kind."""


Answer: TypeAlias = "str | Act"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFinding:
    """The finding under whose comment a command was written."""

    rule: str
    fingerprint: str
    path: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What a command may know. `head_sha` is the head when the command was read, and stays pinned.

    `run_configs` holds the run config documents of the pull request's launch configs by path, or by path and line where
    a file has several commands; ``origins`` in them say where each value is from (DESIGN section 7). They and `given`
    are there for a command that reads them.
    """

    head_sha: str
    run_configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    given: ReviewInput | None = None
    sender: str = ""
    thread: ThreadFinding | None = None


@dataclass(frozen=True, slots=True)
class CommandFile:
    """One command file, read."""

    name: str
    summary: str
    details: str
    usage: str
    who: Who
    reads: Reads
    answer: Callable[[tuple[str, ...], CommandContext], Answer]
    act: type[Act] | None


def command_file(name: str) -> CommandFile:
    """The file of the command `name`, which must exist."""
    module = importlib.import_module(f"bot.core.commands.{name}")
    summary, _, details = (module.__doc__ or "").strip().partition("\n")
    return CommandFile(
        name=name,
        summary=summary,
        details=details.strip(),
        usage=module.USAGE,
        who=module.WHO,
        reads=getattr(module, "READS", "nothing"),
        answer=module.answer,
        act=getattr(module, "ACT", None),
    )
