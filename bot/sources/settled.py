"""The configuration that holds for a repository: its own over its owner's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bot.core.config import Config, find, load
from bot.core.config_text import Problem
from bot.github.gateway import Gateway


@dataclass(frozen=True, slots=True)
class Settled:
    """`defaults` are the owner's, `config` the repository's over them, `problems` of both."""

    config: Config
    defaults: Config
    problems: tuple[Problem, ...]


def read_config(gateway: Gateway, read: Callable[[str], bytes | None]) -> Settled:
    """`read` gives the files of the base branch's tip. Raises `Unavailable` where the owner's cannot be asked for:
    a review by other rules than the owner's would be wrong."""
    owner = gateway.owner_file()
    defaults, problems = load(owner.text, owner.place) if owner else (Config(), ())
    config, own = find(read, defaults)
    return Settled(config, defaults, (*problems, *own))
