"""The texts of the two check runs, and annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzer.findings import Finding, Severity, Skipped
from bot.core.plan import Annotation
from bot.core.policy import Level
from bot.render import limits
from bot.render.markdown import Links, code, count, escape, fold, prose, table, unread, visible
from bot.render.memory import explained, headline, memory_table
from estimator.api import Impact

if TYPE_CHECKING:
    from bot.core.config_text import Problem
    from bot.core.examine import Code
    from bot.core.placing import Placed
    from bot.core.review_input import ReviewInput, Unread

MAX_LISTED = 50


def annotation(finding: Finding, level: Level) -> Annotation:
    """The finding as an annotation: plain text, so invisible characters are shown and nothing else is escaped."""
    evidence = [f"{step.path}:{step.line} {step.note}" for step in finding.evidence]
    start, end = finding.span.start, finding.span.end
    # An exclusive end at column 0 means that the last line is not part of the span.
    last = end.line - 1 if end.column == 0 and end.line > start.line else end.line
    is_one_line = last == start.line and end.line == start.line
    return Annotation(
        path=finding.path,
        start_line=start.line,
        end_line=max(last, start.line),
        level=level,
        title=limits.title(visible(f"{finding.rule} {finding.name}")),
        message=limits.annotation_text(visible(finding.message)),
        raw_details=limits.annotation_text(visible("\n".join(evidence))),
        start_column=start.column + 1 if is_one_line else None,
        end_column=max(end.column, start.column + 1) if is_one_line else None,
    )


def failed_texts(what: str, error: str) -> tuple[str, str]:
    """Title and summary of a check whose engine broke."""
    summary = (
        f"{what} failed with an internal error ({code(error)}). This is a fault of Preflight, not of the pull request. "
        "*Re-run* tries again; the log of the worker has the details."
    )
    return f"{what} failed: a fault of Preflight", summary


def severity_counts(findings: Iterable[Finding]) -> str:
    """``2 errors, 1 warning``; empty for none."""
    counted = dict.fromkeys(Severity, 0)
    for finding in findings:
        counted[finding.severity] += 1
    return ", ".join(count(number, severity.value) for severity, number in counted.items() if number)


def findings_table(placed: Sequence[Placed], links: Links) -> str:
    """Each finding with where it is said."""
    rows = [
        (
            links.line(item.finding.path, item.finding.line),
            f"{item.finding.rule} {item.finding.severity.value}",
            prose(item.finding.message),
            item.where,
        )
        for item in placed[:MAX_LISTED]
    ]
    rest = f"\n\n… and {len(placed) - MAX_LISTED} more" if len(placed) > MAX_LISTED else ""
    return table(("line", "rule", "what", "said"), rows) + rest


def code_texts(
    result: Code, placed: Sequence[Placed], problems: Sequence[Problem], given: ReviewInput, links: Links
) -> tuple[str, str, str]:
    """Title, summary and text of ``preflight/code``."""
    counts = severity_counts(result.findings)
    title = f"{counts} introduced" if counts else "No problems introduced"
    if result.skipped:
        title += f"; {unread(item.to_json() for item in result.skipped)}"
    if problems:
        title += "; the configuration has problems"
    around = f" and {count(result.num_around, 'unchanged one')} that import them" if result.num_around else ""
    looked = f"Looked at {count(result.num_files, 'changed Python file')}{around}, compared with the merge base."
    summary = [looked]
    if given.snapshot.is_cut:
        summary.append("GitHub lists at most 3,000 changed files: the rest was not looked at.")
    if result.num_files:
        summary += _unread(given.unread_head, given.unread_base)
    if placed:
        summary.append(findings_table(placed, links))
    summary += [*_skipped(result.skipped), *_problems(problems)]
    text = [part for part in (_possible(result, links), suppressed_list(result.suppressed, links)) if part]
    return title, "\n\n".join(summary), "\n\n".join(text)


def _unread(head: Unread, base: Unread) -> list[str]:
    """What was not read of the rest of the repository, and what that means for the findings."""
    num_code, num_texts = max(head.code, base.code), max(head.texts, base.texts)
    said = []
    if num_code:
        said.append(
            f"Not read: {count(num_code, 'file')} of code that the changed ones do not lead to, as there is more of it "
            "than is read for one review. Whatever may be unused is judged as if something may call it."
        )
    if num_texts:
        said.append(
            f"Not read: {count(num_texts, 'configuration file')} beside the code, as there is more of them than is "
            "read for one review. Whatever they may turn on or name is judged as if they do."
        )
    return said


def _skipped(skipped: Sequence[Skipped]) -> list[str]:
    lines = [f"- {code(item.path)}: {escape(item.reason)}" for item in skipped[:MAX_LISTED]]
    title = "Analysed in part" if all(item.partial for item in skipped) else "Not analysed"
    return [f"**{title}**\n\n" + "\n".join(lines)] if lines else []


def _problems(problems: Sequence[Problem]) -> list[str]:
    lines = [f"- {code(f'{item.path}:{item.line}')} {escape(item.message)}" for item in problems[:MAX_LISTED]]
    return ["**Configuration**\n\n" + "\n".join(lines)] if lines else []


def _possible(result: Code, links: Links) -> str:
    lines = [
        f"- {links.line(item.path, item.line)} {item.rule} {prose(item.message)}"
        for item in result.possible[:MAX_LISTED]
    ]
    return fold(f"{len(result.possible)} less certain", "\n".join(lines)) if lines else ""


def suppressed_list(suppressed: Sequence[Any], links: Links) -> str:
    """The suppressions that the pull request adds, with their reasons."""
    lines = [
        f"- {links.line(item.path, item.line)} {escape(item.rule)}: {escape(item.reason or 'no reason given')}"
        for item in suppressed[:MAX_LISTED]
    ]
    return "**Suppressions this pull request adds**\n\n" + "\n".join(lines) if lines else ""


def memory_texts(impacts: Sequence[Impact], notes: Sequence[Skipped], links: Links) -> tuple[str, str, str]:
    """Title, summary and text of ``preflight/memory``."""
    shown: list[tuple[Impact, Mapping[str, Any]]] = [
        (impact, impact.head.to_json()) for impact in impacts if impact.head is not None
    ]
    if not shown:
        summary = "This pull request moves the memory of no launch config."
        return "No launch config affected", "\n\n".join([summary, *_skipped(notes)]), ""
    order = ("exceeds", "borderline", "unknown", "fits")
    shown.sort(key=lambda item: order.index(item[0].verdict))
    title = headline(*shown[0])
    if len(shown) > 1:
        title += f" (and {count(len(shown) - 1, 'more launch config')})"
    summary = "\n\n".join([memory_table([impact for impact, _ in shown], links), *_skipped(notes)])
    text = "\n\n".join(explained(impact, estimate, links) for impact, estimate in shown[:MAX_LISTED])
    return title, summary, text
