"""What installed distributions add: rules (entry points ``preflight.rules``) and tables (``preflight.knowledge``).

Only the person who installs Preflight can add them: entry points are read from the installed distributions, never from
the tree under analysis, whose folder is on no import path (``python -I``). What cannot be loaded is left out and said
once; it takes neither a built-in rule nor another extension with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import TypeVar

RULES, KNOWLEDGE = "preflight.rules", "preflight.knowledge"
OURS = re.compile(r"(?:PF|TG)\d+")
T = TypeVar("T")
_problems: dict[str, None] = {}


def loaded(group: str, use: Callable[[object], T]) -> Iterator[T]:
    """What `use` makes of each entry point of a group. It raises for what is no extension."""
    for point in metadata.entry_points(group=group):
        try:
            yield use(point.load())
        except (Exception, SystemExit) as error:  # noqa: BLE001  boundary per extension: other people's code
            complain(point, error)


def complain(point: metadata.EntryPoint, error: BaseException) -> None:
    """Note that an extension is left out."""
    name = point.dist.name if point.dist else point.value
    text = " ".join(str(error).split())[:200]
    _problems[f"{point.group} of {name} ({point.value}) is left out: {type(error).__name__}: {text}"] = None


def problems() -> tuple[str, ...]:
    """What was left out so far, in words."""
    return tuple(_problems)


def is_any() -> bool:
    """Whether any distribution adds anything."""
    return any(metadata.entry_points(group=group) for group in (RULES, KNOWLEDGE))
