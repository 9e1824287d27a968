"""``/preflight dismiss``."""

from __future__ import annotations

from bot.core.commands import Act
from bot.core.commands.dismiss import Dismiss
from bot.core.deciding import dismiss
from bot.queue.decisions import decide
from bot.queue.desk import Desk


def carry_out(desk: Desk, act: Act) -> str:
    """Written into the ledger; the new review closes the thread."""
    assert isinstance(act, Dismiss)
    return decide(desk, lambda ledger, maker: dismiss(ledger, act.target, act.reason, maker))
