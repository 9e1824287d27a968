"""Which finding a comment of ours on a line is about."""

from __future__ import annotations

import re

from bot.core.commands.base import ThreadFinding

_OURS = re.compile(r"<!-- preflight:fingerprint=([^ ]{1,200}) -->\s+(?:> [^\n]*\n\s*)?\*\*(PF\d{3})\b")


def thread_finding(body: str, path: str, line: int | None) -> ThreadFinding | None:
    """The finding of a comment that our own bot user wrote; None where it is no finding's."""
    found = _OURS.match(body)
    return ThreadFinding(rule=found[2], fingerprint=found[1], path=path, line=line) if found else None
