"""``/preflight unignore``."""

from __future__ import annotations

from bot.core.commands import Act
from bot.core.commands.unignore import Unignore
from bot.core.deciding import unignore
from bot.queue.decisions import decide
from bot.queue.desk import Desk


def carry_out(desk: Desk, act: Act) -> str:
    """Taken out of the ledger; the new review opens the threads again."""
    assert isinstance(act, Unignore)
    return decide(desk, lambda ledger, maker: unignore(ledger, act.target))
