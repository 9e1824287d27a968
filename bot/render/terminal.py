"""A report for a person at a terminal: grouped by file, each finding with its evidence and the lines it speaks of.

Columns are 1-based here, as editors and compilers have them; in JSON they are 0-based.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from analyzer.findings import Cell, Evidence, Excuse, Finding, Report, Severity, Skipped
from analyzer.suppress import UNREAD
from bot.catalogue import find
from bot.errors import InputError
from bot.render.markdown import num_unread, on_one_line

Lines = Callable[[str, "int | None"], Sequence[str]]
"""The lines of a file, by the path the report has, or of one cell of a notebook; empty where it cannot be read."""

_WIDTH = 120
_MAX_REASONS = 10
_COLOURS = {"error": "31", "warning": "33", "note": "36", "bold": "1", "dim": "2"}


@dataclass(frozen=True, slots=True)
class Style:
    """Colours, or none; and how much of a line of code is shown."""

    is_coloured: bool = False
    width: int = _WIDTH

    def __call__(self, style: str, text: str) -> str:
        """`text` in a style of `_COLOURS`."""
        return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if self.is_coloured else text


def render(report: Report, lines: Lines, style: Style) -> str:
    """Findings file by file, files that could not be analysed, and one line of numbers."""
    parts = []
    for path in dict.fromkeys(finding.path for finding in report.findings):
        mine = [finding for finding in report.findings if finding.path == path]
        parts.append("\n\n".join("\n".join(_finding(finding, lines, style)) for finding in mine))
    if report.skipped:
        parts.append("\n".join(map(_skipped, report.skipped)))
    if report.idle:
        parts.append("\n".join(on_one_line(f"{item.path}:{item.line}: note: {unused(item)}") for item in report.idle))
    parts.append("\n".join([summary(report), *_excused(report)]))
    return "\n\n".join(parts)


def _skipped(item: Skipped) -> str:
    what = "read in part" if item.partial else "skipped"
    return f"{on_one_line(item.path)}: {what}: {on_one_line(item.reason)}"


def unused(item: Excuse) -> str:
    """An excuse that hides nothing, in words."""
    if item.rule.startswith(UNREAD):
        written = item.rule.removeprefix(UNREAD).strip()
        return f"this comment hides nothing: codes stand in brackets, as in `ignore[PF101]`, and not as `{written}`"
    what = "every finding" if item.rule == "*" else item.rule
    try:
        _ = item.rule == "*" or find(item.rule)
    except InputError as error:
        return f"this comment hides nothing: {error}"
    return f"this comment ignores {what} but hides nothing here: take it away"


def _excused(report: Report) -> Iterator[str]:
    """What is suppressed, by rule and reason."""
    counted = Counter((item.rule, item.source, item.reason) for item in report.suppressed)
    for (rule, source, reason), number in sorted(counted.items())[:_MAX_REASONS]:
        # A baseline has no place for reasons.
        why = "" if source == "baseline" else f": {reason or 'no reason given'}"
        yield on_one_line(f"  suppressed {number} {rule} ({source}){why}")
    if len(counted) > _MAX_REASONS:
        yield f"  … and {len(counted) - _MAX_REASONS} more reasons"


def summary(report: Report) -> str:
    """``2 errors, 1 note in 14 files; 1 skipped, 2 read in part, 3 suppressed``."""
    counts = [_count(report, severity) for severity in Severity]
    found = ", ".join(part for part in counts if part) or "no findings"
    text = f"{found} in {_plural(report.num_files, 'file')}"
    num_whole, num_partly = num_unread(item.to_json() for item in report.skipped)
    rest = [(num_whole, "skipped"), (num_partly, "read in part"), (len(report.suppressed), "suppressed")]
    tail = ", ".join(f"{number} {word}" for number, word in rest if number)
    return f"{text}; {tail}" if tail else text


def _count(report: Report, severity: Severity) -> str:
    number = sum(finding.severity is severity for finding in report.findings)
    return _plural(number, severity.value) if number else ""


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _finding(finding: Finding, lines: Lines, style: Style) -> Iterator[str]:
    at = finding.cell.start if finding.cell else finding.span.start
    name = f"{finding.path}:cell {finding.cell.number}" if finding.cell else finding.path
    place = style("bold", on_one_line(f"{name}:{at.line}:{at.column + 1}:"))
    severity = style(finding.severity.value, finding.severity.value)
    title = f"{finding.rule} {finding.name} ({finding.confidence.value})"
    yield f"{place} {severity} {title} {on_one_line(finding.message)}"
    yield from _excerpt(finding, lines, style)
    for step in finding.evidence:
        yield from _step(step, finding, lines, style)
    if finding.fix:
        how = "" if finding.fix.applicability == "safe" else " (unsafe: changes what the program does)"
        yield f"  fix: {on_one_line(finding.fix.title)}{how}"


def _excerpt(finding: Finding, lines: Lines, style: Style) -> Iterator[str]:
    """The line, with a mark under what is meant."""
    within = finding.cell or finding.span
    start, end = within.start, within.end
    text = _line(lines, finding.path, finding.cell, start.line)
    if text is None:
        return
    stop = end.column if end.line == start.line else len(text)
    # A tab stays a tab, so that the mark stands under its text whatever the tab width is.
    pad = "".join("\t" if char == "\t" else " " for char in text[: start.column])
    number = f"{start.line:>5}"
    yield style("dim", f"{number} | ") + _cut(text, style.width)
    if start.column < style.width:
        mark = "^" * max(1, min(stop, style.width) - start.column)
        yield style("dim", f"{'':>5} | ") + pad + style(finding.severity.value, mark)


def _step(step: Evidence, finding: Finding, lines: Lines, style: Style) -> Iterator[str]:
    line, column = (step.cell.start.line, step.cell.start.column) if step.cell else (step.line, step.column)
    place = f"{line}:{column + 1}"
    if step.cell and (finding.cell is None or step.cell.number != finding.cell.number or step.path != finding.path):
        place = f"cell {step.cell.number}:{place}"
    if step.path != finding.path:
        place = f"{step.path}:{place}"
    text = _line(lines, step.path, step.cell, line)
    is_elsewhere = (step.path, step.line) != (finding.path, finding.line)
    excerpt = f"   {style('dim', _cut(text.strip(), style.width))}" if text is not None and is_elsewhere else ""
    yield f"  {on_one_line(place)}: {on_one_line(step.note)}{excerpt}"


def _line(lines: Lines, path: str, cell: Cell | None, number: int) -> str | None:
    known = lines(path, cell.number if cell else None)
    return known[number - 1] if 1 <= number <= len(known) else None


def _cut(text: str, width: int) -> str:
    shown = on_one_line(text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"
