"""A report as GitHub Actions workflow commands (``::error file=…::message``), one a line."""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.findings import Excuse, Finding, Report, Skipped
from bot.render.markdown import visible
from bot.render.terminal import unused

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report) -> str:
    """A command for each finding and each file that could not be analysed. Columns are 1-based there."""
    lines = [*map(_command, report.findings), *map(_skipped, report.skipped)]
    lines += map(_unused, report.idle)
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    start, end = finding.span.start, finding.span.end
    properties = {"file": finding.path, "line": str(start.line), "endLine": str(end.line)}
    if start.line == end.line:  # GitHub drops the whole annotation that has columns over several lines
        properties |= {"col": str(start.column + 1), "endColumn": str(max(end.column, start.column + 1))}
    properties["title"] = f"{finding.rule} {finding.name} ({finding.confidence.value})"
    if finding.cell:
        properties["title"] += f" in cell {finding.cell.number}, line {finding.cell.start.line}"
    return _line(_LEVELS[finding.severity.value], properties, "\n".join(_message(finding)))


def _message(finding: Finding) -> Iterator[str]:
    yield finding.message
    for step in finding.evidence:
        cell = f"cell {step.cell.number}, line {step.cell.start.line}: " if step.cell else ""
        yield f"{step.path}:{step.line}: {cell}{step.note}"
    if finding.fix:
        yield f"fix ({finding.fix.applicability}): {finding.fix.title}"


def _skipped(item: Skipped) -> str:
    title = "analysed in part" if item.partial else "not analysed"
    return _line("notice", {"file": item.path, "title": title}, item.reason)


def _unused(item: Excuse) -> str:
    properties = {"file": item.path, "line": str(item.line), "title": "unused suppression"}
    return _line("notice", properties, unused(item))


def _line(command: str, properties: dict[str, str], message: str) -> str:
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{command} {shown}::{_data(visible(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")
