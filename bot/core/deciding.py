"""Decisions of people as changes of the ledger. Pure: who and when are given; what cannot be is `InputError`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.catalogue import find
from bot.core.commands.base import ThreadFinding
from bot.core.ledger import (
    MAX_REASON,
    UNSILENCED,
    Dismissal,
    Ignored,
    Ledger,
    Override,
    Posted,
    dismissed,
    ignoring,
    overridden,
    unignoring,
)
from bot.core.seal import has_room
from bot.errors import InputError
from bot.render import decisions as said

_SHA = re.compile(r"[0-9a-f]{40}")
_PLACE = re.compile(r"(?P<path>.+?)(?::(?P<line>\d{1,9}))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """``CODE[@path[:line]]``, read. `fingerprint` where the command stands in the thread of a finding."""

    rule: str
    path: str | None = None
    line: int | None = None
    fingerprint: str | None = None

    def matches(self, item: Posted | Dismissal) -> bool:
        """Whether it means this finding."""
        if self.fingerprint is not None:
            return item.fingerprint == self.fingerprint
        is_there = self.path in (None, item.path) and self.line in (None, item.line)
        return item.rule == self.rule and is_there


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Who decides, when (UTC, ISO 8601), at which head."""

    who: str
    when: str
    head_sha: str


@dataclass(frozen=True, slots=True)
class Decided:
    """The ledger after a decision, and the answer. `ledger` is None where nothing is decided yet: a question back."""

    ledger: Ledger | None
    answer: str


Decide = Callable[[Ledger, Maker], Decided]


def target(word: str, thread: ThreadFinding | None = None) -> Target:
    """What ``CODE[@path[:line]]`` means: in a thread, its finding where the code is that finding's."""
    name, at, place = word.partition("@")
    rule = find(name).code
    if not at:
        fingerprint = thread.fingerprint if thread is not None and thread.rule == rule else None
        return Target(rule=rule, fingerprint=fingerprint)
    match = _PLACE.fullmatch(place.removeprefix("./"))
    if match is None:
        raise InputError(f"{word!r} names no file after the @")
    return Target(rule=rule, path=match["path"], line=int(match["line"]) if match["line"] else None)


def of_thread(thread: ThreadFinding) -> Target:
    """The finding of the thread that a command stands in."""
    return Target(rule=thread.rule, fingerprint=thread.fingerprint)


def names_rule(word: str) -> bool:
    """Whether a word begins with the code, name or alias of a rule."""
    try:
        find(word.partition("@")[0])
    except InputError:
        return False
    return True


def reason_of(words: tuple[str, ...], *, is_needed: bool = True) -> str:
    """The rest of a command as its reason."""
    reason = " ".join(" ".join(words).split())
    if is_needed and not reason:
        raise InputError("say why: the reason is kept, and shown to whoever asks later")
    if len(reason) > MAX_REASON:
        raise InputError(f"the reason has {len(reason)} characters: {MAX_REASON} are kept")
    return reason


def dismiss(ledger: Ledger, wanted: Target, reason: str, maker: Maker) -> Decided:
    """Call one finding no defect. One that was dismissed before gets the new reason."""
    _check_silencable(wanted.rule)
    found = [item for item in ledger.posted if item.status == "open" and wanted.matches(item)]
    found = found or [item for item in ledger.posted if item.status == "dismissed" and wanted.matches(item)]
    if not found:
        raise InputError(said.nothing_to_dismiss(wanted.rule, wanted.path, ledger))
    if len(found) > 1:
        return Decided(None, said.which_one(found))
    (item,) = found
    after = dismissed(
        ledger,
        Dismissal(
            fingerprint=item.fingerprint,
            rule=item.rule or wanted.rule,
            path=item.path,
            line=item.line,
            reason=reason,
            who=maker.who,
            when=maker.when,
            head_sha=maker.head_sha,
        ),
    )
    return Decided(_with_room(after), said.dismissed_text(item))


def ignore(ledger: Ledger, rule: str, reason: str, maker: Maker) -> Decided:
    """Hear nothing of a rule on this pull request."""
    _check_silencable(rule)
    row = Ignored(rule=rule, reason=reason, who=maker.who, when=maker.when, head_sha=maker.head_sha)
    num = sum(item.status == "open" and item.rule == rule for item in ledger.posted)
    return Decided(_with_room(ignoring(ledger, row)), said.ignored_text(rule, num))


def unignore(ledger: Ledger, wanted: Target) -> Decided:
    """Take back what silences a rule, or findings of it: an ignore, and dismissals in the named place."""
    kept = tuple(item for item in ledger.dismissals if not wanted.matches(item))
    num = len(ledger.dismissals) - len(kept)
    is_all = wanted.path is None and wanted.fingerprint is None
    had = is_all and ledger.ignored(wanted.rule) is not None
    if not num and not had:  # also when a command runs a second time: what was asked for is so
        return Decided(None, said.not_silenced_text(wanted.rule, wanted.path))
    after = replace(unignoring(ledger, wanted.rule) if had else ledger, dismissals=kept)
    return Decided(after, said.unignored_text(wanted.rule, had=had, num=num))


def override(ledger: Ledger, sha: str, reason: str, maker: Maker) -> Decided:
    """Let exactly the commit that somebody looked at pass ``preflight/memory``."""
    check_sha(sha)
    if sha != maker.head_sha:
        raise InputError(
            f"{sha[:12]} is not the head of the pull request: look at the present head and name it in full"
        )
    row = Override(check="memory", sha=sha, reason=reason, who=maker.who, when=maker.when)
    return Decided(_with_room(overridden(ledger, row)), said.overridden_text(row))


def check_sha(sha: str) -> None:
    """A commit is overridden by its full id only: a push after the look must not ride on it."""
    if not _SHA.fullmatch(sha):
        raise InputError("name the commit with all 40 digits (git rev-parse HEAD), not a branch or a short id")


def _check_silencable(rule: str) -> None:
    if rule == UNSILENCED:
        raise InputError(
            f"{rule} is neither dismissed nor ignored: /preflight override memory <40-digit sha> reason, given by "
            "somebody who did not write it, lets one commit pass"
        )


def _with_room(ledger: Ledger) -> Ledger:
    if not has_room(ledger):
        raise InputError("too much is decided on this pull request to be kept: put rules into .github/preflight.yml")
    return ledger
