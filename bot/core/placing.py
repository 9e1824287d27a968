"""Where each finding is said: as a comment where GitHub accepts one, else where nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analyzer.findings import Confidence, Finding
from bot.core.diff import Commentable, commentable
from bot.core.examine import renames
from bot.core.fingerprint import fingerprints
from bot.core.plan import ReviewComment
from bot.core.review_input import ReviewInput
from bot.core.suggestions import NoSuggestion, Suggestion, suggest
from bot.render.comments import comment_body
from bot.render.markdown import Links

Where = Literal["comment", "said before", "outside the diff", "over the limit", "too unsure for a comment"]
MAX_SPAN = 50  # lines of a finding that are tried for an anchor


@dataclass(frozen=True, slots=True)
class Placed:
    """One finding, who it is, and where it is said."""

    finding: Finding
    fingerprint: str
    where: Where
    comment: ReviewComment | None = None


def place(given: ReviewInput, findings: Sequence[Finding], links: Links) -> tuple[Placed, ...]:
    """Place `findings`, most severe first; at most `config.max_inline` of them become comments."""
    prints = fingerprints(findings, given.head.read, renames(given.snapshot))
    order = sorted(zip(findings, prints, strict=True), key=lambda item: _rank(item[0]))
    desk = _Desk(given, links)
    return tuple(desk.place(finding, fingerprint) for finding, fingerprint in order)


def _rank(finding: Finding) -> tuple[int, int, str, int]:
    return -finding.severity.rank, -finding.confidence.rank, finding.path, finding.line


class _Desk:
    """Places findings one by one, remembering what was used up."""

    def __init__(self, given: ReviewInput, links: Links) -> None:
        self._given = given
        self._links = links
        self._lines: Mapping[str, Commentable] = {
            file.path: commentable(file.patch) for file in given.snapshot.changed_files if file.status != "removed"
        }
        self._left = given.config.max_inline
        self._suggested: set[tuple[str, int]] = set()

    def place(self, finding: Finding, fingerprint: str) -> Placed:
        if fingerprint in self._given.posted:
            return Placed(finding, fingerprint, "said before")
        if finding.confidence is Confidence.POSSIBLE:
            return Placed(finding, fingerprint, "too unsure for a comment")
        anchor = self._anchor(finding)
        if anchor is None:
            return Placed(finding, fingerprint, "outside the diff")
        if self._left <= 0:
            return Placed(finding, fingerprint, "over the limit")
        self._left -= 1
        change = self._change(finding)
        start, line = (change.start_line, change.line) if isinstance(change, Suggestion) else (anchor, anchor)
        comment = ReviewComment(
            path=finding.path,
            line=line,
            start_line=start if start < line else None,  # GitHub refuses a range of one line
            body=comment_body(finding, fingerprint, self._links, change),
            fingerprint=fingerprint,
        )
        return Placed(finding, fingerprint, "comment", comment)

    def _anchor(self, finding: Finding) -> int | None:
        """The first line of the finding that the diff shows on its right side."""
        lines = self._lines.get(finding.path, {})
        first, last = finding.span.start.line, min(finding.span.end.line, finding.span.start.line + MAX_SPAN)
        return next((line for line in range(first, max(first, last) + 1) if ("RIGHT", line) in lines), None)

    def _change(self, finding: Finding) -> Suggestion | NoSuggestion | None:
        if finding.fix is None:
            return None
        blob = self._given.head.read(finding.path)
        if blob is None:
            return NoSuggestion("the file cannot be read")
        change = suggest(finding.fix.edits, finding.path, blob, self._lines.get(finding.path, {}))
        if isinstance(change, NoSuggestion):
            return change
        wanted = {(finding.path, line) for line in range(change.start_line, change.line + 1)}
        if wanted & self._suggested:
            return NoSuggestion("another suggestion changes the same line: apply that one first")
        self._suggested |= wanted
        return change
