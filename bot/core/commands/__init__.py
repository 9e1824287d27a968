"""Slash commands: a grammar (`grammar`) and one file per command, found by its name (`base` says what it holds)."""

from __future__ import annotations

from bot.core.commands.base import Act, Answer, CommandContext, Reads, ThreadFinding, Who, command_file
from bot.core.commands.grammar import Command, Mistake, command_line, command_names, parse

__all__ = [
    "Act",
    "Answer",
    "Command",
    "CommandContext",
    "Mistake",
    "ThreadFinding",
    "Who",
    "answer",
    "command_line",
    "command_names",
    "explain_mistake",
    "parse",
    "reads",
    "who_may",
]


def who_may(command: Command) -> Who:
    """Who may give the command: the pull request's author or people with write access, or only the latter."""
    return command_file(command.name).who


def reads(command: Command) -> Reads:
    """What of the pull request the command has to see."""
    return command_file(command.name).reads


def answer(command: Command, context: CommandContext) -> Answer:
    """Markdown, or what is to be done. Never raises `InputError`: what is wrong with the words is the answer."""
    return command_file(command.name).answer(command.words, context)


def explain_mistake(mistake: Mistake) -> str:
    """The answer to a line that is no command, as Markdown."""
    from bot.render.answers import mistake_text  # the receiver parses commands and must not load the engine

    return mistake_text(mistake)
