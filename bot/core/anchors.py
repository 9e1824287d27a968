"""Which line of the diff a finding is said at: its own, or that of the change which causes it.

A pull request can make an old line wrong: it removes a `detach()` further up, or changes what a name is bound to. Such
a finding is anchored on the step of its evidence that the pull request adds, where there is one, and says so. Where no
step is added and its own line is not shown, it stands in the part of the diff that its evidence passes through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analyzer.findings import Evidence, Finding
from bot.core.diff import Commentable, added_lines, commentable
from bot.sources.base import PullSnapshot

MAX_SPAN = 50  # lines of a finding that are tried for an anchor


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A line that GitHub takes a comment on. `is_touched`: the pull request adds a line of the finding itself;
    otherwise `cause` is the step of the evidence that it adds, where it is known."""

    path: str
    line: int
    is_touched: bool = True
    cause: Evidence | None = None
    is_beside: bool = False
    """Not on a step of the evidence, but in a part of the diff that it passes through."""

    def is_at_cause(self, finding: Finding) -> bool:
        """Whether the comment stands elsewhere than the fault."""
        return self.is_beside or (
            self.cause is not None and (self.path, self.line) == (self.cause.path, self.cause.line)
        )


class Anchors:
    """The diff of one pull request, asked for each finding."""

    def __init__(self, snapshot: PullSnapshot) -> None:
        files = [file for file in snapshot.changed_files if file.status != "removed"]
        self.lines: Mapping[str, Commentable] = {file.path: commentable(file.patch) for file in files}
        self._added = {file.path: added_lines(file.patch) for file in files}
        self._unshown = frozenset(file.path for file in files if file.patch is None)

    def of(self, finding: Finding) -> Anchor | None:
        """Where the finding is said; None where the diff shows no line that could carry it."""
        own = self._own(finding)
        if finding.path in self._unshown or self._is_touched(finding):
            return own
        cause = next((step for step in finding.evidence if step.line in self._added.get(step.path, ())), None)
        if cause is not None:
            return Anchor(path=cause.path, line=cause.line, is_touched=False, cause=cause)
        if own is not None:
            return Anchor(path=own.path, line=own.line, is_touched=False)
        return next((found for step in finding.evidence if (found := self._beside(step))), None)

    def _beside(self, step: Evidence) -> Anchor | None:
        """Where the evidence passes through a part of the diff: the line added there that is nearest to it."""
        lines = self.lines.get(step.path, {})
        hunk = lines.get(("RIGHT", step.line))
        if hunk is None:
            return None
        added = [line for line in self._added[step.path] if lines.get(("RIGHT", line)) == hunk]
        line = min(added, key=lambda number: (abs(number - step.line), number), default=step.line)
        return Anchor(path=step.path, line=line, is_touched=False, is_beside=True)

    def _own(self, finding: Finding) -> Anchor | None:
        lines = self.lines.get(finding.path, {})
        found = next((line for line in _span(finding) if ("RIGHT", line) in lines), None)
        return None if found is None else Anchor(path=finding.path, line=found)

    def _is_touched(self, finding: Finding) -> bool:
        added = self._added.get(finding.path, frozenset())
        return any(line in added for line in _span(finding))


def _span(finding: Finding) -> range:
    first = finding.span.start.line
    last = min(finding.span.end.line, first + MAX_SPAN)
    return range(first, max(first, last) + 1)
