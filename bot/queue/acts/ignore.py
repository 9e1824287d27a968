"""``/preflight ignore``."""

from __future__ import annotations

from bot.core.commands import Act
from bot.core.commands.ignore import Ignore
from bot.core.deciding import ignore
from bot.queue.decisions import decide
from bot.queue.desk import Desk


def carry_out(desk: Desk, act: Act) -> str:
    """Written into the ledger; the new review closes the threads of the rule."""
    assert isinstance(act, Ignore)
    return decide(desk, lambda ledger, maker: ignore(ledger, act.rule, act.reason, maker))
