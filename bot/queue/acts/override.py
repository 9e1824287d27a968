"""``/preflight override``: never by those whose work it lets pass."""

from __future__ import annotations

from bot.core.commands import Act
from bot.core.commands.override import LetPass
from bot.core.deciding import override
from bot.errors import InputError
from bot.queue.decisions import decide
from bot.queue.desk import Desk


def carry_out(desk: Desk, act: Act) -> str:
    """Written into the ledger; the new review concludes the check as overridden."""
    assert isinstance(act, LetPass)
    people = desk.gateway.people.of_pull(desk.pull.number)
    if people.is_cut:
        raise InputError("GitHub lists at most 250 commits of a pull request: nobody can be shown to have written none")
    if people.includes(desk.sender) or desk.pull.author.casefold() == desk.sender.casefold():
        raise InputError("an override is given by somebody who wrote neither the pull request nor one of its commits")
    return decide(desk, lambda ledger, maker: override(ledger, act.sha, act.reason, maker))
