"""The ledger: what Preflight remembers of one pull request. Pure values; `bot.core.seal` writes them into a comment.

*Posted* are the findings that were said, *dismissals*, *ignores* and *overrides* what people decided. GitHub holds the
only lasting copy (hidden in our summary comment); Redis may be flushed at any time.

Worked example: PF101 is commented at push 1 (``open``), gone at push 2 (``fixed``), back at push 3 (``open`` again, the
same comment); somebody dismisses it (``dismissed``): from then on it is neither said nor counted, on any later push.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Status = Literal["open", "fixed", "dismissed"]
Where = Literal["comment", "annotation", "summary"]
OverridableCheck = Literal["memory"]

UNSILENCED = "PF501"
"""The rule that neither a dismissal nor an ignore reaches: nothing but an override lifts a memory block."""
MAX_REASON = 300
"""Characters kept of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A finding that was said. `line` is that of the last head it was seen at; `head_sha` the head at which `status`
    began."""

    fingerprint: str
    rule: str
    path: str
    line: int
    severity: str
    where: Where
    status: Status
    head_sha: str
    shape: str = ""
    """The fingerprint without the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismissal:
    """Somebody with write access called one finding no defect. `when` is UTC, ISO 8601."""

    fingerprint: str
    rule: str
    path: str
    line: int
    reason: str
    who: str
    when: str
    head_sha: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Somebody with write access wants to hear nothing of a rule on this pull request."""

    rule: str
    reason: str
    who: str
    when: str
    head_sha: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Somebody who did not write the pull request lets one commit, and no other, pass a check."""

    check: OverridableCheck
    sha: str
    reason: str
    who: str
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """`posted` in the order in which findings were first said. `head_sha` is the last head that was reviewed.

    `distrusted` is set where an earlier ledger could not be read or was not ours: the head at which we began anew.
    """

    posted: tuple[Posted, ...] = ()
    dismissals: tuple[Dismissal, ...] = ()
    ignores: tuple[Ignored, ...] = ()
    overrides: tuple[Override, ...] = ()
    head_sha: str = ""
    distrusted: str = ""

    @property
    def has_decisions(self) -> bool:
        """Whether a person decided anything here."""
        return bool(self.dismissals or self.ignores or self.overrides)

    @property
    def commented(self) -> frozenset[str]:
        """Fingerprints that have a comment on lines, or had one that somebody deleted."""
        return frozenset(item.fingerprint for item in self.posted if item.where == "comment")

    def dismissal(self, fingerprint: str) -> Dismissal | None:
        """The dismissal of one finding."""
        return next((item for item in self.dismissals if item.fingerprint == fingerprint), None)

    def ignored(self, rule: str) -> Ignored | None:
        """The decision that silences a rule."""
        return next((item for item in self.ignores if item.rule == rule), None)

    def override(self, check: OverridableCheck, sha: str) -> Override | None:
        """The override of a check on exactly the commit `sha`."""
        return next((item for item in self.overrides if item.check == check and item.sha == sha), None)

    def moved(self, shape: str, paths: Collection[str]) -> Posted | None:
        """The finding that had this shape in a file which is not among `paths` any more: the file was renamed."""
        return next((item for item in self.posted if item.shape == shape and item.path not in paths), None)

    def silences(self, item: Posted) -> bool:
        """Whether a person decided that this finding is not to be said. Of PF501 nobody can: it has overrides."""
        if item.rule == UNSILENCED:
            return False
        return self.dismissal(item.fingerprint) is not None or self.ignored(item.rule) is not None

    def matching(self, rule: str, path: str | None = None, line: int | None = None) -> tuple[Posted, ...]:
        """The open findings that ``CODE[@path[:line]]`` means."""
        return tuple(
            item
            for item in self.posted
            if item.status == "open"
            and item.rule == rule
            and (path is None or item.path == path)
            and (line is None or item.line == line)
        )


def dismissed(ledger: Ledger, dismissal: Dismissal) -> Ledger:
    """With the dismissal, in place of an earlier one of the same finding."""
    others = tuple(item for item in ledger.dismissals if item.fingerprint != dismissal.fingerprint)
    posted = tuple(
        replace(item, status="dismissed", head_sha=dismissal.head_sha)
        if item.fingerprint == dismissal.fingerprint
        else item
        for item in ledger.posted
    )
    return replace(ledger, dismissals=(*others, dismissal), posted=posted)


def ignoring(ledger: Ledger, ignored: Ignored) -> Ledger:
    """With a rule silenced."""
    others = tuple(item for item in ledger.ignores if item.rule != ignored.rule)
    return replace(ledger, ignores=(*others, ignored))


def unignoring(ledger: Ledger, rule: str) -> Ledger:
    """With a rule heard again."""
    return replace(ledger, ignores=tuple(item for item in ledger.ignores if item.rule != rule))


def overridden(ledger: Ledger, override: Override) -> Ledger:
    """With the override, in place of an earlier one of the same check and commit."""
    others = tuple(item for item in ledger.overrides if (item.check, item.sha) != (override.check, override.sha))
    return replace(ledger, overrides=(*others, override))


def reviewed(
    ledger: Ledger,
    said: Sequence[Posted],
    head_sha: str,
    *,
    unseen: Collection[str],
    unseen_rules: Iterable[str] = (),
    excused: Collection[tuple[str, str]] = (),
) -> Ledger:
    """After a review at `head_sha` that found `said` (each as ``open``).

    What was open and is not among them has been fixed, except where nobody looked: findings in the paths `unseen` (a
    file that could not be analysed) and of rules in `unseen_rules` (their engine failed; ``*`` stands for every rule
    of the analyzer). Where the pull request adds a comment in the code that excuses the rule in that file (`excused`:
    rule and path) it counts as dismissed.
    """
    now = {item.fingerprint: item for item in said}
    silent = frozenset(unseen_rules)
    kept = []
    for old in ledger.posted:
        new = now.pop(old.fingerprint, None)
        if new is not None:
            kept.append(_again(old, new, ledger))
        elif old.status == "open" and old.path not in unseen and not _is_silent(old.rule, silent):
            is_excused = (old.rule, old.path) in excused
            kept.append(replace(old, status="dismissed" if is_excused else "fixed", head_sha=head_sha))
        else:
            kept.append(old)
    fresh = [_decided(item, ledger) for item in now.values()]
    return replace(ledger, posted=(*kept, *fresh), head_sha=head_sha)


def published(current: Ledger, posted: Sequence[Posted], head_sha: str) -> Ledger:
    """`current`, whose decisions hold, with the findings of a review that may have been made under older ones."""
    rows = tuple(_decided(item, current) if item.status == "open" else item for item in posted)
    return replace(current, posted=rows, head_sha=head_sha)


def _again(old: Posted, new: Posted, ledger: Ledger) -> Posted:
    """A finding that is still there, or is there again. One that was commented once stays a comment."""
    current = _decided(new, ledger)
    where = old.where if old.where == "comment" else current.where
    began = old.head_sha if old.status == current.status else current.head_sha
    return replace(current, where=where, head_sha=began)


def _decided(item: Posted, ledger: Ledger) -> Posted:
    return replace(item, status="dismissed") if ledger.silences(item) else item


def _is_silent(rule: str, silent: frozenset[str]) -> bool:
    return rule in silent or ("*" in silent and rule != UNSILENCED)
