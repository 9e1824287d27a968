"""Answers to slash commands as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bot.render import estimate_markdown, limits
from bot.render.markdown import code, count, escape, fenced, fold, is_invisible, prose, table

if TYPE_CHECKING:
    from analyzer.api import RuleFacts
    from analyzer.findings import Finding
    from bot.core.commands.base import CommandFile
    from bot.core.commands.grammar import Mistake
    from bot.core.plan import Plan

MAX_LISTED = 50
_MAX_PATCH = 48_000
"""Characters of patches in one comment: what a comment holds, less the words around them."""


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


def review_text(plan: Plan, num_comments: int) -> str:
    """What a review that somebody asked for found: each check with its result, its details folded."""
    parts = [f"Reviewed `{plan.head_sha[:12]}`: {_comments(num_comments)}."]
    for check in plan.checks:
        parts.append(f"**{check.name}**: {check.conclusion}. {escape(check.title)}")
        parts.append(fold("What was looked at and found", check.summary) if check.summary else "")
    return limits.body("\n\n".join(part for part in parts if part))


def _comments(number: int) -> str:
    return f"{count(number, 'new comment')} on lines" if number else "no new comments on lines"


def fixes_text(cured: Sequence[Finding], left: Sequence[Finding]) -> str:
    """What the fixes of a commit or patch cure, and what stays for a person."""
    parts = [_places("Fixed", [f"{prose(item.fix.title)}" if item.fix else "" for item in cured], cured)]
    if left:
        parts.append(_places("Left, because no safe fix is known", [prose(item.message) for item in left], left))
    return "\n\n".join(parts)


def _places(title: str, words: Sequence[str], findings: Sequence[Finding]) -> str:
    lines = [
        f"- {code(f'{item.path}:{item.line}')} {item.rule}: {said}"
        for item, said in list(zip(findings, words, strict=True))[:MAX_LISTED]
    ]
    more = [f"- … and {len(findings) - MAX_LISTED} more"] if len(findings) > MAX_LISTED else []
    return f"**{title}**\n\n" + "\n".join([*lines, *more])


def nothing_to_fix_text(head_sha: str, left: Sequence[Finding]) -> str:
    """No safe fix; the findings for a person, if any."""
    if not left:
        return f"Nothing to fix at `{head_sha[:12]}`: this pull request introduces no finding."
    said = _places("For you to look at", [prose(item.message) for item in left], left)
    return f"No safe fix at `{head_sha[:12]}`.\n\n{said}"


def committed_text(sha: str, url: str, told: str) -> str:
    """The commit that holds the fixes."""
    return f"Committed [`{sha[:12]}`]({url}).\n\n{told}"


def moved_text(head_sha: str, branch: str) -> str:
    """Somebody pushed while the fixes were made."""
    return (
        f"Nothing was committed: {code(branch)} has moved on from `{head_sha[:12]}` meanwhile. "
        f"{code('/preflight fix')} again works on its new head."
    )


def patch_text(why: str, told: str, patches: Mapping[str, str]) -> str:
    """The fixes as a patch, folded: whole files while there is room, the others by name."""
    shown, absent, room = [], [], _MAX_PATCH
    for path, patch in patches.items():
        exact = bool(patch) and not any(is_invisible(char) for char in patch)
        if exact and len(patch) <= room:
            shown.append(patch)
            room -= len(patch)
        else:
            absent.append(path)
    parts = [f"Nothing was committed: {prose(why)}", told]
    if shown:
        block = fenced("".join(shown), "diff")
        parts.append(fold("Patch", f"Save it as `fixes.patch`, then `git apply fixes.patch`.\n\n{block}"))
    if absent:
        names = ", ".join(code(path) for path in absent)
        parts.append(f"Not in a patch (too long, or with characters a comment cannot carry): {names}.")
        parts.append("`preflight check --fix` in a clone makes these changes too.")
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
        return "\n\n".join(
            part for part in (code(only.usage), only.summary, only.details, f"Who may: {_who(only)}.") if part
        )
    rows = [(code(item.usage), item.summary, _who(item)) for item in commands]
    return table(("command", "what", "who"), rows)


def _who(item: CommandFile) -> str:
    return "the author, or write access" if item.who == "author_or_write" else "write access"
