"""The texts of ``preflight/memory`` on a commit of the default branch: every launch config that is there."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.findings import Skipped
from bot.render.markdown import Links, code, count, escape
from bot.render.memory import MAX_ROWS, explained, memory_table
from estimator.api import Impact

_WORST_FIRST = ("exceeds", "borderline", "unknown", "fits")
_WORDS = {"exceeds": "cannot fit", "borderline": "borderline", "unknown": "unknown", "fits": "fit"}
MAX_EXPLAINED = 20


def branch_texts(impacts: Sequence[Impact], notes: Sequence[Skipped], links: Links) -> tuple[str, str, str]:
    """Title, summary and text. What fits is in the table and needs no explanation."""
    if not impacts:
        summary = ["No launch config was recognised in this commit.", *_notes(notes)]
        return "No launch configs", "\n\n".join(summary), ""
    ranked = sorted(impacts, key=lambda impact: (_WORST_FIRST.index(impact.verdict), impact.path, impact.line))
    counts = {verdict: sum(impact.verdict == verdict for impact in ranked) for verdict in _WORST_FIRST}
    told = ", ".join(f"{number} {_WORDS[verdict]}" for verdict, number in counts.items() if number)
    summary = [
        f"Every launch config of this commit, for the submission gate: {told}.",
        memory_table(ranked, links),
        *([f"… and {count(len(ranked) - MAX_ROWS, 'more launch config')}"] if len(ranked) > MAX_ROWS else []),
        *_notes(notes),
    ]
    bad = [impact for impact in ranked if impact.verdict in {"exceeds", "borderline"} and impact.head is not None]
    text = [explained(impact, impact.head.to_json(), links) for impact in bad[:MAX_EXPLAINED] if impact.head]
    return f"{count(len(ranked), 'launch config')}: {told}", "\n\n".join(summary), "\n\n".join(text)


def _notes(notes: Sequence[Skipped]) -> list[str]:
    lines = [f"- {code(item.path)}: {escape(item.reason)}" for item in notes[:MAX_ROWS]]
    return ["**Not estimated**\n\n" + "\n".join(lines)] if lines else []
