"""Commit the safe fixes of what this pull request introduces to its branch.

One commit on top of the head, never a force-push. Where Preflight may not push (a fork, a protected branch, no
`contents: write`) the answer holds a patch for `git apply`. A fix is safe when nothing but the defect changes.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analyzer.api import text_of
from analyzer.findings import Finding
from bot.core.commands.base import Act, Answer, CommandContext, Reads, Who
from bot.core.fixing import Fixed, safe_fixes
from bot.core.patch import file_patch
from bot.errors import InputError
from bot.render.answers import fixes_text, nothing_to_fix_text, wrong_words
from bot.render.markdown import count

USAGE = "/preflight fix"
WHO: Who = "write"
READS: Reads = "code"
MAX_FILES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixes(Act):
    """`files` hold the new contents in base64, `patches` the same by path; `told` is Markdown about what changes."""

    files: Mapping[str, str]
    patches: Mapping[str, str]
    message: str
    told: str


ACT = Fixes


def answer(words: tuple[str, ...], context: CommandContext) -> Answer:
    """What is to be committed; a text where there is nothing."""
    if words:
        return wrong_words("fix", "it takes no words: every safe fix is applied")
    if context.given is None:
        raise InputError("the code of the pull request was not read")
    fixed = safe_fixes(context.given)
    if not fixed.after:
        return nothing_to_fix_text(context.head_sha, fixed.left)
    if len(fixed.after) > MAX_FILES:
        raise InputError(
            f"the fixes change {len(fixed.after)} files, more than {MAX_FILES}: use `preflight check --fix` in a clone"
        )
    return Fixes(
        files={path: base64.b64encode(content).decode() for path, content in fixed.after.items()},
        patches=_patches(fixed),
        message=_message(fixed.cured, len(fixed.after)),
        told=fixes_text(fixed.cured, fixed.left),
    )


def _patches(fixed: Fixed) -> dict[str, str]:
    """By path; none for a file whose bytes are not the text that a patch in a comment would show."""
    found = {}
    for path, content in sorted(fixed.after.items()):
        old, new = (text_of(side) for side in (fixed.before[path], content))
        is_exact = old is not None and old.encode() == fixed.before[path] and new is not None
        found[path] = file_patch(path, old, new) if is_exact and old is not None and new is not None else ""
    return found


def _message(cured: Iterable[Finding], num_files: int) -> str:
    """Rules and numbers only: a path or a line of code could mention people, close issues or skip a pipeline."""
    names = Counter((finding.rule, finding.name) for finding in cured)
    rules = ", ".join(sorted({rule for rule, _ in names}))
    lines = [f"- {rule} {name}: {count(number, 'place')}" for (rule, name), number in sorted(names.items())]
    return f"Apply Preflight's safe fixes: {rules}\n\n" + "\n".join(lines) + f"\n\nIn {count(num_files, 'file')}."
