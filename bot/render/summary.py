"""The one summary comment, edited on each push, and the body of the review."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzer.findings import Suppressed
from bot.core.ledger import Ledger
from bot.render import limits
from bot.render.checks import findings_table, severity_counts, suppressed_list
from bot.render.decisions import decisions_list, distrust_text
from bot.render.markdown import Links, count
from bot.render.memory import memory_table
from bot.sources.base import PullSnapshot
from estimator.api import Impact

if TYPE_CHECKING:
    from bot.core.placing import Placed

SUMMARY_MARKER = "<!-- preflight:summary -->"
_WORTH_SAYING = frozenset({"exceeds", "borderline"})


def review_body(placed: Sequence[Placed]) -> str:
    """The sentence above the review's comments."""
    said = [item.finding for item in placed if item.where == "comment"]
    rest = sum(item.where in {"outside the diff", "over the limit", "a note"} for item in placed)
    more = f" {count(rest, 'more finding')} in the summary and the checks." if rest else ""
    return f"Preflight found {severity_counts(said)} that this pull request introduces.{more}"


def summary_body(
    placed: Sequence[Placed],
    impacts: Sequence[Impact],
    suppressed: Sequence[Suppressed],
    snapshot: PullSnapshot,
    links: Links,
    ledger: Ledger,
    preview: str = "",
) -> str | None:
    """The summary, or None when a person need not read one. The ledger is hidden in it when it is published."""
    tight = [item for item in impacts if item.head is not None and item.verdict in _WORTH_SAYING]
    decided = decisions_list(ledger, snapshot.head_sha)
    placed = [item for item in placed if not item.is_silenced]
    if not placed and not tight and not suppressed and not decided and not ledger.distrusted and not preview:
        return None
    parts = [SUMMARY_MARKER, f"### Preflight at `{snapshot.head_sha[:12]}`"]
    if placed:
        parts += [f"Introduced: {severity_counts(item.finding for item in placed)}.", findings_table(placed, links)]
    if impacts:
        parts.append(f"**Memory**\n\n{memory_table(impacts, links)}")
    if decided:
        parts.append(decided)
    if preview:
        parts.append(preview)
    if suppressed:
        parts.append(suppressed_list(suppressed, links))
    if ledger.distrusted:
        parts.append(distrust_text(ledger.distrusted))
    return limits.body("\n\n".join(parts))


def decided_summary(ledger: Ledger, head_sha: str) -> str:
    """The summary of a pull request that had none before somebody decided something."""
    return f"{SUMMARY_MARKER}\n\n### Preflight at `{head_sha[:12]}`\n\n{decisions_list(ledger, head_sha)}"


def all_clear(head_sha: str) -> str:
    """What a summary that is already there says once nothing is left to say."""
    return f"{SUMMARY_MARKER}\n\n### Preflight at `{head_sha[:12]}`\n\nNothing left to report."
