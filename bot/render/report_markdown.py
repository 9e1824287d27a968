"""A report as Markdown: for the summary of a workflow run, an issue or a wiki."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from analyzer.findings import Finding, Report
from bot.render.markdown import code, count, escape, fold, prose, table, unread
from bot.render.terminal import summary

_MAX_SHOWN = 100  # a job summary may have 1 MiB, and nobody reads more


def render(report: Report) -> str:
    """A table of the findings, the evidence of each, what was not analysed and what was excused."""
    parts = [f"### Preflight: {escape(summary(report))}"]
    shown = sorted(report.findings, key=lambda item: (-item.severity.rank, item.span))[:_MAX_SHOWN]
    if shown:
        rows = [(code(_place(item)), f"{item.rule} {item.severity.value}", prose(item.message)) for item in shown]
        parts.append(table(("line", "rule", "what"), rows))
        parts.append(fold("Evidence", "\n\n".join(map(_evidence, shown))))
    if len(report.findings) > len(shown):
        parts.append(f"… and {count(len(report.findings) - len(shown), 'more finding')}")
    parts += _rest(report)
    return "\n\n".join(parts) + "\n"


def _rest(report: Report) -> Iterator[str]:
    if report.skipped:
        lines = [f"- {code(item.path)}: {escape(item.reason)}" for item in report.skipped[:_MAX_SHOWN]]
        yield fold(unread(item.to_json() for item in report.skipped), "\n".join(lines))
    if report.suppressed:
        reasons = Counter((item.rule, item.source, item.reason) for item in report.suppressed)
        lines = [
            f"- {number} × {escape(rule)} ({source}): {escape(reason or 'no reason given')}"
            for (rule, source, reason), number in sorted(reasons.items())[:_MAX_SHOWN]
        ]
        yield fold(f"{len(report.suppressed)} suppressed", "\n".join(lines))


def _evidence(finding: Finding) -> str:
    steps = [f"- {code(f'{step.path}:{step.line}')} {prose(step.note)}" for step in finding.evidence]
    return f"**{finding.rule} at {code(_place(finding))}** ({finding.confidence.value})\n\n" + "\n".join(steps)


def _place(finding: Finding) -> str:
    cell = f" (cell {finding.cell.number}, line {finding.cell.start.line})" if finding.cell else ""
    return f"{finding.path}:{finding.line}{cell}"
