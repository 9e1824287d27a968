"""What an analysis reports: frozen values and their JSON form (the contract of ``preflight check --format json``).

Lines are 1-based, columns are 0-based and count Unicode code points, ends are exclusive. Paths are relative
POSIX paths, as the `Files` under analysis name them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal


class Severity(enum.Enum):
    """What happens if the code ships. Not how sure we are: that is `Confidence`."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for note, 1 for warning, 2 for error: larger is worse."""
        return {"note": 0, "warning": 1, "error": 2}[self.value]


class Confidence(enum.Enum):
    """How sure we are: every step seen, a convention bridges one gap, or an unseen call could change the answer."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """0 for possible, 1 for likely, 2 for certain: larger is surer."""
        return {"possible": 0, "likely": 1, "certain": 2}[self.value]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place between two characters: 1-based line, 0-based column in code points."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of one file; `end` is exclusive."""

    path: str
    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Cell:
    """Where a person finds a place of a notebook: the cell's number (from 1, among all cells of the file) and the
    position in that cell. The line of the file itself, which is JSON, stands in the span."""

    number: int
    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Evidence:
    """One step of the chain that leads to a finding."""

    path: str
    line: int
    column: int
    note: str
    cell: Cell | None = None

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        document = {"path": self.path, "line": self.line, "column": self.column, "note": self.note}
        if self.cell:
            start = self.cell.start
            document |= {"cell": self.cell.number, "cell_line": start.line, "cell_column": start.column}
        return document


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `span` (empty: insert) with `text`."""

    span: Span
    text: str

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        start, end = self.span.start, self.span.end
        return {
            "path": self.span.path,
            "start": {"line": start.line, "column": start.column},
            "end": {"line": end.line, "column": end.column},
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that cures a finding. ``safe``: the facts prove that nothing but the defect changes."""

    title: str
    applicability: Literal["safe", "unsafe"]
    edits: tuple[Edit, ...]

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {
            "title": self.title,
            "applicability": self.applicability,
            "edits": [edit.to_json() for edit in self.edits],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect at one place, with the evidence for it. A finding without evidence is a bug of ours."""

    rule: str
    name: str
    span: Span
    severity: Severity
    confidence: Confidence
    message: str
    evidence: tuple[Evidence, ...]
    fix: Fix | None = None
    cell: Cell | None = None

    @property
    def path(self) -> str:
        """The file the finding is in."""
        return self.span.path

    @property
    def line(self) -> int:
        """The 1-based first line."""
        return self.span.start.line

    def to_json(self) -> dict[str, Any]:
        """The contract's form. A finding in a notebook adds ``cell``, and its position there."""
        document = {
            "rule": self.rule,
            "name": self.name,
            "path": self.span.path,
            "line": self.span.start.line,
            "column": self.span.start.column,
            "end_line": self.span.end.line,
            "end_column": self.span.end.column,
            "severity": self.severity.value,
            "confidence": self.confidence.value,
            "message": self.message,
            "evidence": [step.to_json() for step in self.evidence],
            "fix": self.fix.to_json() if self.fix else None,
        }
        if self.cell:
            start, end = self.cell.start, self.cell.end
            document |= {"cell": self.cell.number, "cell_line": start.line, "cell_column": start.column}
            document |= {"cell_end_line": end.line, "cell_end_column": end.column}
        return document


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that a comment or the configuration hid, and the reason given for it."""

    rule: str
    path: str
    line: int
    source: Literal["comment", "noqa", "file", "config", "baseline"]
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {
            "rule": self.rule,
            "path": self.path,
            "line": self.line,
            "source": self.source,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, order=True)
class Excuse:
    """What one comment excuses: a rule as it is written there (a code, an alias, a name), or all for ``*``."""

    path: str
    line: int
    rule: str

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {"path": self.path, "line": self.line, "rule": self.rule}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file, or a part of one, that could not be analysed, and why, in words for the person."""

    path: str
    reason: str
    partial: bool = False
    """Whether the rest of the file was analysed."""

    def to_json(self) -> dict[str, Any]:
        """The contract's form."""
        return {"path": self.path, "reason": self.reason, **({"partial": True} if self.partial else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything one analysis has to say. `num_files` counts the files looked at, screened-out ones included.

    `idle` are the excuses of the targets' comments that hid nothing, of any confidence; `busy` those that hid something
    somewhere, which may be idle in the report on another target.
    """

    num_files: int
    skipped: tuple[Skipped, ...]
    findings: tuple[Finding, ...]
    suppressed: tuple[Suppressed, ...] = ()
    idle: tuple[Excuse, ...] = ()
    busy: tuple[Excuse, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The contract's form (version 1). Excuses stand there only where there are some."""
        document = {
            "version": 1,
            "files": self.num_files,
            "skipped": [item.to_json() for item in self.skipped],
            "findings": [item.to_json() for item in self.findings],
            "suppressed": [item.to_json() for item in self.suppressed],
        }
        for key, excuses in (("unused_suppressions", self.idle), ("used_suppressions", self.busy)):
            if excuses:
                document[key] = [item.to_json() for item in excuses]
        return document


def surest(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each rule and place: the surest, the first of equals."""
    known: dict[tuple[str, Span], Finding] = {}
    for item in findings:
        key = (item.rule, item.span)
        if key not in known or item.confidence.rank > known[key].confidence.rank:
            known[key] = item
    return list(known.values())
