"""Where each finding is said: as a comment where GitHub accepts one, else where nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from analyzer.findings import Confidence, Finding
from bot.core.anchors import Anchor, Anchors
from bot.core.examine import renames
from bot.core.fingerprint import Identity, identities
from bot.core.ledger import Posted
from bot.core.ledger import Where as LedgerWhere
from bot.core.plan import ReviewComment
from bot.core.review_input import ReviewInput
from bot.core.suggestions import NoSuggestion, Suggestion, suggest
from bot.render.comments import comment_body
from bot.render.markdown import Links

Where = Literal[
    "comment",
    "said before",
    "outside the diff",
    "over the limit",
    "a note",
    "too unsure for a comment",
    "dismissed",
    "ignored",
]
_IN_LEDGER: dict[Where, LedgerWhere] = {
    "comment": "comment",
    "said before": "comment",
    "too unsure for a comment": "summary",
    "dismissed": "summary",
    "ignored": "summary",
}


@dataclass(frozen=True, slots=True)
class Placed:
    """One finding, who it is, and where it is said."""

    finding: Finding
    fingerprint: str
    where: Where
    comment: ReviewComment | None = None
    shape: str = ""

    @property
    def is_silenced(self) -> bool:
        """A person decided that it does not count."""
        return self.where in {"dismissed", "ignored"}

    def as_posted(self, head_sha: str) -> Posted:
        """Its row in the ledger, as open."""
        return Posted(
            fingerprint=self.fingerprint,
            rule=self.finding.rule,
            path=self.finding.path,
            line=self.finding.line,
            severity=self.finding.severity.value,
            where=_IN_LEDGER.get(self.where, "annotation"),
            status="open",
            head_sha=head_sha,
            shape=self.shape,
        )


def place(given: ReviewInput, findings: Sequence[Finding], links: Links) -> tuple[Placed, ...]:
    """Place `findings`, most severe first; at most `config.max_inline` of them become comments."""
    found = _known(given, identities(findings, given.head.read, renames(given.snapshot)))
    order = sorted(zip(findings, found, strict=True), key=lambda item: _rank(item[0]))
    desk = _Desk(given, links, frozenset(item.fingerprint for item in found))
    return tuple(desk.place(finding, identity) for finding, identity in order)


def _known(given: ReviewInput, found: Sequence[Identity]) -> list[Identity]:
    """The identities, with the fingerprint of before for findings in a file that a push renamed."""
    paths = given.head.paths()
    there = {item.fingerprint for item in found}
    known = []
    for item in found:
        before = given.ledger.moved(item.shape, paths)
        if before is not None and before.fingerprint not in there:
            there.add(before.fingerprint)
            item = replace(item, fingerprint=before.fingerprint)
        known.append(item)
    return known


def _rank(finding: Finding) -> tuple[int, int, str, int]:
    return -finding.severity.rank, -finding.confidence.rank, finding.path, finding.line


class _Desk:
    """Places findings one by one, remembering what was used up."""

    def __init__(self, given: ReviewInput, links: Links, present: frozenset[str]) -> None:
        self._given = given
        self._ledger = given.ledger
        self._links = links
        self._anchors = Anchors(given.snapshot)
        self._left = given.config.max_inline
        self._num_standing = len(present & given.ledger.commented)
        self._elsewhere = {item.fingerprint for item in given.ledger.posted if item.status == "open"}
        self._suggested: set[tuple[str, int]] = set()

    def place(self, finding: Finding, identity: Identity) -> Placed:
        where, comment = self._said(finding, identity.fingerprint)
        return Placed(finding, identity.fingerprint, where, comment, identity.shape)

    def _said(self, finding: Finding, fingerprint: str) -> tuple[Where, ReviewComment | None]:
        where = self._without_comment(finding, fingerprint)
        if where is not None:
            return where, None
        anchor = self._anchors.of(finding)
        if anchor is None:
            return "outside the diff", None
        if not self._has_room(fingerprint):
            return "over the limit", None
        self._left -= 1
        self._num_standing += 1
        return "comment", self._comment(finding, fingerprint, anchor)

    def _without_comment(self, finding: Finding, fingerprint: str) -> Where | None:
        row = Placed(finding, fingerprint, "comment").as_posted("")
        if self._ledger.silences(row):
            return "dismissed" if self._ledger.dismissal(fingerprint) else "ignored"
        if fingerprint in self._ledger.commented:
            return "said before"
        if finding.confidence is Confidence.POSSIBLE:
            return "too unsure for a comment"
        return "a note" if finding.severity.rank < self._given.config.min_inline.rank else None

    def _has_room(self, fingerprint: str) -> bool:
        """What was said in the checks before becomes a comment only where few stand: a small push stays quiet."""
        if fingerprint in self._elsewhere and self._num_standing >= self._given.config.max_inline:
            return False
        return self._left > 0

    def _comment(self, finding: Finding, fingerprint: str, anchor: Anchor) -> ReviewComment:
        change = self._change(finding)
        path, start, line = anchor.path, anchor.line, anchor.line
        if isinstance(change, Suggestion):  # a change can be applied only where it stands
            path, start, line = finding.path, change.start_line, change.line
        elif change is not None and anchor.is_at_cause(finding):
            change = NoSuggestion("the change is elsewhere than this line")
        here = replace(anchor, path=path, line=line)
        return ReviewComment(
            path=path,
            line=line,
            start_line=start if start < line else None,  # GitHub refuses a range of one line
            body=comment_body(finding, fingerprint, self._links, change, here),
            fingerprint=fingerprint,
        )

    def _change(self, finding: Finding) -> Suggestion | NoSuggestion | None:
        if finding.fix is None:
            return None
        blob = self._given.head.read(finding.path)
        if blob is None:
            return NoSuggestion("the file cannot be read")
        change = suggest(finding.fix.edits, finding.path, blob, self._anchors.lines.get(finding.path, {}))
        if isinstance(change, NoSuggestion):
            return change
        wanted = {(finding.path, line) for line in range(change.start_line, change.line + 1)}
        if wanted & self._suggested:
            return NoSuggestion("another suggestion changes the same line: apply that one first")
        self._suggested |= wanted
        return change
