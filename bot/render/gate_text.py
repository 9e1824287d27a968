"""What the gate says at a terminal: for each launch what it needs and what would fit, then why it runs or does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bot.core.gate import Decision, Here
from bot.render.markdown import visible

_WIDTH = 400
_MAX_SUGGESTIONS = 3
_SHA = 12


def render(decision: Decision, command: Sequence[str], policy: str, sha: str = "") -> str:
    """Plain text. Words come from files and from GitHub: no escape sequence gets through."""
    lines = [f"preflight gate: {' '.join(command)}", f"policy: {policy}"]
    if decision.check is not None:
        check = decision.check
        lines.append(f"preflight/memory of {sha[:_SHA]}: {check.state}{f' ({check.title})' if check.title else ''}")
        lines += [f"  {check.url}"] if check.url else []
    for item in decision.here:
        lines += _launch(item)
    lines += [f"note: {text}" for text in decision.notes]
    lines += [f"blocked: {text}" for text in decision.blockers]
    if decision.is_allowed:
        lines.append("allowed")
    return "\n".join(map(_line, lines)) + "\n"


def to_json(decision: Decision, command: Sequence[str], policy: str, sha: str = "") -> dict[str, Any]:
    """The decision as one document (version 1)."""
    check = decision.check
    return {
        "version": 1,
        "allowed": decision.is_allowed,
        "command": list(command),
        "policy": policy,
        "sha": sha or None,
        "check": {"state": check.state, "title": check.title, "url": check.url, "note": check.note} if check else None,
        "launches": [
            {
                "path": item.path,
                "line": item.line,
                "verdict": item.verdict,
                "mode": item.mode,
                "estimate": item.estimate,
                "why": item.why,
                "smoke_test": item.smoke_test,
            }
            for item in decision.here
        ],
        "blockers": list(decision.blockers),
        "notes": list(decision.notes),
    }


def _launch(item: Here) -> Iterator[str]:
    yield f"{item.place}: {item.verdict}{_needs(item.estimate)}"
    if item.estimate is None:
        return
    if item.estimate.get("moment"):
        yield f"  highest at {item.estimate['moment']}"
    if item.verdict in {"exceeds", "borderline"}:
        for change in list(item.estimate.get("suggestions") or ())[:_MAX_SUGGESTIONS]:
            peak = change["peak_gib"]
            yield (
                f"  {'would fit' if change['verdict'] == 'fits' else 'would help'}: {change['change']} "
                f"({peak['low']:.1f} to {peak['high']:.1f} GiB; {change['trade_off']})"
            )


def _needs(estimate: Mapping[str, Any] | None) -> str:
    peak = estimate.get("peak_gib") if estimate else None
    if estimate is None or not peak:
        return ""
    needs = f", needs at least {peak['floor']:.1f} GiB per GPU, expected {peak['low']:.1f} to {peak['high']:.1f} GiB"
    targets = [
        f"{item['name']} has {item['usable_gib']:.1f} GiB"
        for item in estimate.get("targets") or ()
        if item["usable_gib"] is not None
    ]
    return f"{needs}; {', '.join(targets)}" if targets else needs


def _line(text: str) -> str:
    shown = visible(text).replace("\t", " ").replace("\n", " ")
    return shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 1]}…"
