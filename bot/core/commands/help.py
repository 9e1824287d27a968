"""List the commands, or explain one."""

from __future__ import annotations

from bot.core.commands.base import CommandContext, Who, command_file
from bot.core.commands.grammar import command_names
from bot.render.answers import help_text

USAGE = "/preflight help [command]"
WHO: Who = "author_or_write"


def answer(words: tuple[str, ...], context: CommandContext) -> str:
    """The list; one command in full when it is named."""
    named = [word for word in words if word in command_names()]
    return help_text([command_file(name) for name in (named[:1] or command_names())])
