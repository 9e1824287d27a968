"""Answers to slash commands as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bot.render import estimate_markdown, limits
from bot.render.markdown import code, escape, prose, table

if TYPE_CHECKING:
    from analyzer.api import RuleFacts
    from bot.core.commands.base import CommandFile
    from bot.core.commands.grammar import Mistake


def mistake_text(mistake: Mistake) -> str:
    """What was wrong with a line that called us."""
    hint = f" Did you mean {code(f'/preflight {mistake.nearest}')}?" if mistake.nearest else ""
    return f"{code(mistake.line)}: {escape(mistake.message)}.{hint}\n\n{code('/preflight help')} lists the commands."


def refused_text(sender: str, *, author_may: bool) -> str:
    """Why somebody may not. Their own name is the only one that is ever mentioned."""
    who = f"@{sender}" if re.fullmatch(r"[A-Za-z0-9_\-]{1,100}", sender) else code(sender)
    whom = "the author of the pull request and people with write access" if author_may else "people with write access"
    return f"Sorry {who}, only {whom} may do this."


def failed_text(why: str) -> str:
    """A command that was understood and did not work."""
    return f"That did not work: {escape(why)}"


def closed_text(name: str) -> str:
    """A command that would change something where nothing is changed any more."""
    return f"The pull request is closed: {code(f'/preflight {name}')} works again when it is reopened."


def too_many_text(most: int) -> str:
    """Somebody's loop, or somebody's patience."""
    return f"That is more than {most} commands of one person within an hour on this pull request: not run."


def wrong_words(name: str, problem: str) -> str:
    """What was wrong with the words of a command that exists."""
    return f"{code(f'/preflight {name}')}: {prose(problem)}\n\n{code(f'/preflight help {name}')} explains the command."


def estimate_text(head_sha: str, estimates: Sequence[tuple[str, Any]]) -> str:
    """Estimates, each under the launch config it starts from (empty: the command's words alone)."""
    parts = [f"Estimate at `{head_sha[:12]}`"]
    for path, estimate in estimates:
        if path:
            parts.append(f"From {code(path)}, as the command changes it:")
        parts.append(estimate_markdown.render(estimate))
    return limits.body("\n\n".join(parts))


def page_text(rules: Sequence[RuleFacts]) -> str:
    """The pages of rules, each folded under its code, name and summary. Pages are ours: they need no escaping."""
    parts = []
    for rule in rules:
        body = rule.page.partition("\n")[2].strip()
        summary = f"<summary><b>{rule.code}</b> {rule.name}: {escape(rule.summary)}</summary>"
        parts.append(f"<details open>{summary}\n\n{body}\n\n</details>")
    return limits.body("\n\n".join(parts))


def help_text(commands: Sequence[CommandFile]) -> str:
    """Every command with its usage, or one in full."""
    if len(commands) == 1:
        only = commands[0]
        return "\n\n".join(part for part in (code(only.usage), only.summary, only.details, _who(only)) if part)
    rows = [(code(item.usage), item.summary, _who(item)) for item in commands]
    return table(("command", "what", "who"), rows)


def _who(item: CommandFile) -> str:
    return "the author, or write access" if item.who == "author_or_write" else "write access"
