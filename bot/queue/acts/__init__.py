"""What commands do, one file per command, named as its file in `bot.core.commands`.

Each holds ``carry_out(desk, act) -> str | None``: the answer as Markdown, or None where somebody else answers later
(the review that it queued). It may run twice: look, then write. `InputError` is said to the person.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from bot.core.commands import Act
from bot.queue.desk import Desk


class _Acts(Protocol):
    def carry_out(self, desk: Desk, act: Act) -> str | None: ...


def carry_out(name: str, desk: Desk, act: Act) -> str | None:
    """What the command `name` wants done."""
    return cast(_Acts, importlib.import_module(f"bot.queue.acts.{name}")).carry_out(desk, act)
