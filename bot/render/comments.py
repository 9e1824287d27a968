"""One review comment: what happens, why, what to do, and how to silence it."""

from __future__ import annotations

from analyzer.findings import Confidence, Finding
from bot.core.anchors import Anchor
from bot.core.suggestions import NoSuggestion, Suggestion
from bot.render import limits
from bot.render.markdown import Links, code, escape, prose

FINGERPRINT_MARKER = "<!-- preflight:fingerprint={} -->"
MAX_EVIDENCE = 12

_HOW_SURE = {
    Confidence.CERTAIN: "certain: every step is in the code",
    Confidence.LIKELY: "likely: one step rests on a convention",
    Confidence.POSSIBLE: "possible: code that we cannot see could change the answer",
}


def comment_body(
    finding: Finding,
    fingerprint: str,
    links: Links,
    change: Suggestion | NoSuggestion | None,
    anchor: Anchor | None = None,
) -> str:
    """The comment's Markdown. `change` is None when the finding has no fix; `anchor` is where the comment stands.

    The marker stands first, so that no cut can take it away.
    """
    cell = f" · cell {finding.cell.number}, line {finding.cell.start.line}" if finding.cell else ""
    parts = [
        FINGERPRINT_MARKER.format(fingerprint),
        f"**{finding.rule} {escape(finding.name)}** · {finding.severity.value} · {_HOW_SURE[finding.confidence]}{cell}",
        prose(finding.message),
        _elsewhere(finding, links, anchor),
        _why(finding, links),
        _what_to_do(finding, change),
        _silence(finding, anchor),
    ]
    return limits.body("\n\n".join(part for part in parts if part))


def _elsewhere(finding: Finding, links: Links, anchor: Anchor | None) -> str:
    """That the pull request does not touch the line which is wrong, and what of it is to blame."""
    if anchor is None or anchor.is_touched:
        return ""
    if anchor.is_beside:
        place = links.line(finding.path, finding.line)
        return f"What changes here appears to go wrong at {place}, which the pull request does not change."
    if anchor.is_at_cause(finding):
        return f"What this line changes goes wrong at {links.line(finding.path, finding.line)}, which is not changed."
    if anchor.cause is not None:
        cause = links.line(anchor.cause.path, anchor.cause.line)
        return f"The pull request does not change this line; what it changes at {cause} makes it wrong."
    return "The pull request does not change this line; something that it changes or removes elsewhere makes it wrong."


def _why(finding: Finding, links: Links) -> str:
    steps = finding.evidence[:MAX_EVIDENCE]
    lines = [f"{index}. {links.line(step.path, step.line)} {prose(step.note)}" for index, step in enumerate(steps, 1)]
    if len(finding.evidence) > MAX_EVIDENCE:
        lines.append(f"\n… and {len(finding.evidence) - MAX_EVIDENCE} more steps")
    return "**Why**\n\n" + "\n".join(lines) if lines else ""


def _what_to_do(finding: Finding, change: Suggestion | NoSuggestion | None) -> str:
    if finding.fix is None or change is None:
        return ""
    title = f"**Fix:** {prose(finding.fix.title)}"
    if finding.fix.applicability == "unsafe":
        title += " (this may change more than the defect: read it before you apply it)"
    if isinstance(change, Suggestion):
        return f"{title}\n\n{change.block}"
    return f"{title}\n\n(No one-click change here: {escape(change.reason)}.)"


def _silence(finding: Finding, anchor: Anchor | None) -> str:
    """An excuse counts on the line of the finding, wherever the comment stands."""
    explain = f"`preflight explain {finding.rule}` tells more."
    if finding.rule == "PF501":
        return f"<sub>{explain}</sub>"  # nothing in the head lifts a memory block
    ignore, report = f"# preflight: ignore[{finding.rule}] reason", f"preflight report {finding.path}:{finding.line}"
    wrong = f"Wrong? {code(report)} makes a small example for an issue."
    is_here = anchor is None or (anchor.path, anchor.line) == (finding.path, finding.line)
    where = "this line" if is_here else f"line {finding.line} of {code(finding.path)}"
    return f"<sub>Not a defect? {code(ignore)} on {where}. {wrong} {explain}</sub>"
