"""The tree with its notebooks as programs, and a report on it carried back into the files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from analyzer.api import Files
from analyzer.errors import InputError
from analyzer.findings import Evidence, Finding, Fix, Position, Report, Skipped, Span
from analyzer.notebooks.program import Notebook, read

SUFFIX = ".ipynb"


class NotebookFiles:
    """`Files` whose notebooks read as their program; one that holds none reads as an empty file."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, Notebook | str] = {}

    def paths(self) -> Collection[str]:
        return self._files.paths()

    def read(self, path: str) -> bytes | None:
        raw = self._files.read(path)
        if raw is None or not path.endswith(SUFFIX):
            return raw
        notebook = self._notebook(path, raw)
        return notebook.source if isinstance(notebook, Notebook) else b""

    def _notebook(self, path: str, raw: bytes) -> Notebook | str:
        if path not in self._known:
            try:
                self._known[path] = read(raw)
            except InputError as error:
                self._known[path] = str(error)
            except Exception as error:  # noqa: BLE001  boundary per file: a notebook may be anything
                self._known[path] = f"internal error in the notebook: {type(error).__name__}: {error}"[:300]
        return self._known[path]

    def placed(self, report: Report) -> Report:
        """The report with places in the files instead of the programs."""
        if not self._known:
            return report
        return replace(
            report,
            findings=tuple(map(self._finding, report.findings)),
            suppressed=tuple(replace(item, line=self.line(item.path, item.line)) for item in report.suppressed),
            idle=tuple(replace(item, line=self.line(item.path, item.line)) for item in report.idle),
            busy=tuple(replace(item, line=self.line(item.path, item.line)) for item in report.busy),
        )

    def notes(self, paths: Iterable[str]) -> Iterator[Skipped]:
        """Which notebooks, and which of their cells, are not analysed."""
        for path in paths:
            known = self._known.get(path)
            if isinstance(known, str):
                yield Skipped(path, known)
            elif known is not None:
                yield from (Skipped(path, note, partial=True) for note in known.notes)

    def _finding(self, finding: Finding) -> Finding:
        notebook = self._known.get(finding.path)
        evidence = tuple(map(self._evidence, finding.evidence))
        if not isinstance(notebook, Notebook):
            return replace(finding, evidence=evidence)
        return replace(
            finding,
            span=notebook.span(finding.span),
            cell=notebook.cell(finding.span),
            evidence=evidence,
            fix=self._fix(finding.fix, finding.path, notebook),
        )

    def _evidence(self, step: Evidence) -> Evidence:
        notebook = self._known.get(step.path)
        if not isinstance(notebook, Notebook):
            return step
        at = Position(step.line, step.column)
        span = Span(step.path, at, at)
        place = notebook.span(span).start
        return Evidence(step.path, place.line, place.column, step.note, notebook.cell(span))

    def _fix(self, fix: Fix | None, path: str, notebook: Notebook) -> Fix | None:
        if fix is None or any(edit.span.path != path for edit in fix.edits):
            return None
        edits = notebook.edits(fix.edits, self._files.read(path) or b"")
        return None if edits is None else replace(fix, edits=edits)

    def line(self, path: str, line: int) -> int:
        """The line of the file that a line of its program stands on."""
        notebook = self._known.get(path)
        if not isinstance(notebook, Notebook):
            return line
        at = Position(line, 0)
        return notebook.span(Span(path, at, at)).start.line
