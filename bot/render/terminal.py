"""Findings for people at a terminal."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.findings import Finding, Report


def printable(text: str) -> str:
    """Control characters of a hostile file or path must not reach the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def report_text(report: Report, line_of: Callable[[str, int], str | None]) -> str:
    """The report; `line_of(path, line)` is the source line to show, or None."""
    parts = [finding_text(finding, line_of) for finding in report.findings]
    parts += [f"{item.path}: skipped: {item.reason}" for item in report.skipped]
    parts.append(_totals(report))
    return printable("\n".join(parts))


def finding_text(finding: Finding, line_of: Callable[[str, int], str | None]) -> str:
    """One finding with its source line, evidence and fix."""
    start, end = finding.span.start, finding.span.end
    what = f"{finding.severity.value} {finding.rule} {finding.name} ({finding.confidence.value})"
    lines = [f"{finding.path}:{start.line}:{start.column + 1}: {what}", f"  {finding.message}"]
    source = line_of(finding.path, start.line)
    if source is not None:
        last = end.column if end.line == start.line else len(source)
        pad = "".join("\t" if char == "\t" else " " for char in source[: start.column])
        lines += [f"  {start.line:>5} | {source}", f"        | {pad}{'^' * max(1, last - start.column)}"]
    lines += [f"  {step.path}:{step.line}:{step.column + 1}: {step.note}" for step in finding.evidence]
    if finding.fix:
        lines.append(f"  fix ({finding.fix.applicability}): {finding.fix.title}")
    return "\n".join([*lines, ""])


def _totals(report: Report) -> str:
    words = [f"{report.num_files} {'file' if report.num_files == 1 else 'files'}"]
    for severity in ("error", "warning", "note"):
        count = sum(finding.severity.value == severity for finding in report.findings)
        if count:
            words.append(f"{count} {severity}{'' if count == 1 else 's'}")
    if not report.findings:
        words.append("nothing found")
    if report.suppressed:
        words.append(f"{len(report.suppressed)} suppressed")
    if report.skipped:
        words.append(f"{len(report.skipped)} skipped")
    return ", ".join(words)
