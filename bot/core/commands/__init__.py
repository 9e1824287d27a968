"""Slash commands: a grammar (`grammar`) and one file per command, found by its name (`base` says what it holds)."""

from __future__ import annotations

from bot.core.commands.base import CommandContext, Who, command_file
from bot.core.commands.grammar import Command, Mistake, command_line, command_names, parse

__all__ = [
    "Command",
    "CommandContext",
    "Mistake",
    "Who",
    "answer",
    "command_line",
    "command_names",
    "explain_mistake",
    "parse",
    "who_may",
]


def who_may(command: Command) -> Who:
    """Who may give the command: the pull request's author or people with write access, or only the latter."""
    return command_file(command.name).who


def answer(command: Command, context: CommandContext) -> str:
    """The answer as Markdown. Never raises `InputError`: what is wrong with the words is the answer."""
    return command_file(command.name).answer(command.words, context)


def explain_mistake(mistake: Mistake) -> str:
    """The answer to a line that is no command, as Markdown."""
    from bot.render.answers import mistake_text  # the receiver parses commands and must not load the engine

    return mistake_text(mistake)
