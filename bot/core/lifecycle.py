"""The life of a comment on a line: closed when its finding is fixed or dismissed, opened again when it comes back.

A thread that a person wrote in is theirs: it is neither resolved nor edited. One that a person resolved stays resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bot.core.ledger import Ledger, Posted
from bot.render.decisions import closing_note

FINGERPRINT = re.compile(r"<!-- preflight:fingerprint=([^ ]+) -->")
"""Where a comment of ours begins: further down it could be the name of somebody's file."""
_RULE = re.compile(r"\*\*([A-Z]+\d+) ")
_CLOSED = "<!-- preflight:closed -->"
_NOTE = re.compile(rf"^> [^\n]* {re.escape(_CLOSED)}\n+", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread that a comment of ours began. `id` and `comment_id` are GraphQL's.

    `resolved_by_person`: somebody pressed *Resolve*. `has_reply`: a person said more in it than a command to us. `up`
    and `down` are reactions to the comment, where they were asked for.
    """

    id: str
    comment_id: str
    path: str
    line: int
    body: str
    is_resolved: bool = False
    resolved_by_person: bool = False
    is_minimized: bool = False
    has_reply: bool = False
    up: int = 0
    down: int = 0

    @property
    def fingerprint(self) -> str | None:
        """Of the finding; None for a comment of ours that is none's."""
        found = FINGERPRINT.match(self.body)
        return found[1] if found else None

    @property
    def is_closed(self) -> bool:
        """We, or a person, said that it is over."""
        return self.is_resolved or _CLOSED in self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadChange:
    """Close a thread or open it again. `body` is what its comment says then, where threads cannot be resolved."""

    thread: Thread
    kind: Literal["close", "open"]
    body: str


def with_threads(ledger: Ledger, threads: Iterable[Thread]) -> Ledger:
    """The ledger with a row for each comment that it does not know: its own copy was lost, or too long."""
    known = {item.fingerprint: item for item in ledger.posted}
    found = {}
    for thread in threads:
        fingerprint = thread.fingerprint
        if fingerprint is None or fingerprint in found:
            continue
        if (row := known.get(fingerprint)) is None:
            found[fingerprint] = _row(thread, fingerprint)
        elif row.where != "comment":  # a job died between the comment and the ledger
            found[fingerprint] = replace(row, where="comment")
    kept = (found.pop(item.fingerprint, item) for item in ledger.posted)
    return replace(ledger, posted=(*kept, *found.values()))


def _row(thread: Thread, fingerprint: str) -> Posted:
    rule = _RULE.search(thread.body)
    return Posted(
        fingerprint=fingerprint,
        rule=rule[1] if rule else "",
        path=thread.path,
        line=thread.line,
        severity="",
        where="comment",
        status="fixed" if thread.is_closed and not thread.resolved_by_person else "open",
        head_sha="",
    )


def thread_changes(threads: Sequence[Thread], ledger: Ledger) -> tuple[ThreadChange, ...]:
    """What has to happen to the threads so that they say what the ledger does."""
    rows = {item.fingerprint: item for item in ledger.posted}
    changes = []
    for thread in threads:
        row = rows.get(thread.fingerprint or "")
        if row is None or thread.has_reply:
            continue
        if row.status != "open" and not thread.is_closed:
            changes.append(ThreadChange(thread=thread, kind="close", body=_closed(thread.body, row, ledger)))
        elif row.status == "open" and thread.is_closed and not thread.resolved_by_person:
            changes.append(ThreadChange(thread=thread, kind="open", body=_NOTE.sub("", thread.body)))
    return tuple(changes)


def _closed(body: str, row: Posted, ledger: Ledger) -> str:
    """The comment with a line above it that says why it is closed; the marker stays first."""
    marker, _, rest = body.partition("\n")
    return f"{marker}\n\n> {closing_note(row, ledger)} {_CLOSED}\n\n{rest.lstrip()}"
