"""Estimate the peak GPU memory, for other GPUs or other options.

Starts from the launch configs that the pull request changes, where there are any; a path picks one of them. GPU and
instance names come first (`A100` means both sizes), then the options of `preflight estimate`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bot.core.commands.base import CommandContext, Reads, Who
from bot.errors import InputError
from bot.render.answers import estimate_text, wrong_words
from estimator import api

USAGE = "/preflight estimate [GPU|instance…] [path] [options]"
WHO: Who = "author_or_write"
READS: Reads = "launches"
MAX_CONFIGS = 5


def picked(words: Sequence[str], configs: Collection[str]) -> tuple[list[str], list[str]]:
    """The launch configs that `words` name, else the first ones; and the other words. A path stands for each command
    of its file (``run.sh`` for ``run.sh:3`` and ``run.sh:7``)."""
    known = {name: [name] for name in configs}
    for name in configs:
        known.setdefault(name.rpartition(":")[0] or name, []).append(name)
    named = [name for word in words for name in known.get(word.removeprefix("./"), ())]
    rest = [word for word in words if word.removeprefix("./") not in known]
    return list(dict.fromkeys(named)) or sorted(configs)[:MAX_CONFIGS], rest


def answer(words: tuple[str, ...], context: CommandContext) -> str:
    """One table for each launch config, at the head that was pinned when the command was read."""
    paths, rest = picked(words, context.run_configs)
    bases: list[tuple[str, Mapping[str, Any] | None]] = [(path, context.run_configs[path]) for path in paths]
    try:
        answers = [(path, api.estimate_words(rest, base=base)) for path, base in bases or [("", None)]]
    except InputError as error:
        return wrong_words("estimate", str(error))
    return estimate_text(context.head_sha, answers)
