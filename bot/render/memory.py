"""Memory estimates of launch configs as Markdown: before and after, against what the GPU has, and what would fit.

Reads the estimate's JSON contract (DESIGN section 7), never its inner values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.render.markdown import Links, code, escape, fold, table
from estimator.api import Impact, Verdict, is_hardly_enough

Estimate = Mapping[str, Any]
MAX_ROWS = 30
MAX_TARGETS = 6
_MAX_NAMED = 3


def headline(impact: Impact, estimate: Estimate) -> str:
    """One plain line: what the launch config needs against what there is."""
    peak = estimate.get("peak_gib")
    if not peak:
        return f"{impact.path}: no estimate"
    needs = f"{impact.path}: {impact.verdict}, {_range(peak)} GiB"
    sizes = _sizes(estimate)
    if not sizes:
        return f"{needs}, no known GPU"
    if len(sizes) == 1:
        return f"{needs} of {sizes[0][0]:.1f} GiB"
    if len(sizes) > _MAX_NAMED:
        return f"{needs} of {sizes[0][0]:.1f} to {sizes[-1][0]:.1f} GiB ({len(sizes)} sizes of card)"
    return f"{needs} of " + " or ".join(f"{usable:.1f} GiB ({name})" for usable, name in sizes)


def _sizes(estimate: Estimate) -> list[tuple[float, str]]:
    """What each card that the run may mean has, the smallest first, and the first card that has so much."""
    found: dict[float, str] = {}
    for item in estimate.get("targets") or ():
        if item["usable_gib"] is not None:
            found.setdefault(item["usable_gib"], str(item["name"]))
    return sorted(found.items())


def memory_table(impacts: Sequence[Impact], links: Links) -> str:
    """One row for each launch config: old and new peak, floor against usable, verdict."""
    rows = []
    for impact in impacts[:MAX_ROWS]:
        if impact.head is None:
            continue
        new = impact.head.to_json()
        old = impact.base.to_json() if impact.base is not None else None
        rows.append(
            (
                links.line(impact.path, impact.line),
                _target(new),
                _moved(old, new),
                _floor(new),
                _verdict(impact.verdict, new),
            )
        )
    return table(("launch config", "GPU", "peak per GPU", "at least / usable", "verdict"), rows)


def explained(impact: Impact, estimate: Estimate, links: Links) -> str:
    """Everything behind one number: command, what moved it, changes that fit, terms, inputs, what is unknown."""
    parts = [f"### {links.line(impact.path, impact.line)}"]
    if impact.command:
        parts.append(code(" ".join(impact.command), limit=400))
    if impact.verdict == "borderline" and impact.smoke_test:
        parts.append(f"**Smoke test**: {code(impact.smoke_test, limit=300)}")
    if impact.moved:
        parts.append("**Moved by** " + ", ".join(code(place) for place in impact.moved[:MAX_ROWS]))
    parts += [
        part
        for part in (
            _suggestions(estimate),
            _reasons(estimate),
            _terms(estimate),
            _inputs(estimate),
            _unknowns(estimate),
        )
        if part
    ]
    return "\n\n".join(parts)


def _range(peak: Mapping[str, float]) -> str:
    return f"{peak['low']:.1f}–{peak['high']:.1f}"


def _target(estimate: Estimate) -> str:
    targets = estimate.get("targets") or ()
    if not targets:
        return "not known"
    several = len(targets) > 1
    shown = [
        f"{escape(str(item['name']))} × {item['count']}" + (f" ({item['verdict']})" if several else "")
        for item in targets[:MAX_TARGETS]
    ]
    return " or ".join(shown)


def _moved(old: Estimate | None, new: Estimate) -> str:
    peak = new.get("peak_gib")
    if not peak:
        return "no number"
    text = f"**{peak['point']:.1f}** ({_range(peak)}) GiB"
    before = old.get("peak_gib") if old else None
    return f"{before['point']:.1f} → {text}" if before else text


def _floor(estimate: Estimate) -> str:
    peak, sizes = estimate.get("peak_gib"), _sizes(estimate)
    floor = f"{peak['floor']:.1f}" if peak else "?"
    shown = [f"{usable:.1f}" for usable, _ in sizes]
    usable = " or ".join(shown) if len(shown) <= _MAX_NAMED else f"{shown[0]} to {shown[-1]}"
    return f"{floor} / {usable} GiB" if sizes else f"{floor} / ?"


def _verdict(verdict: Verdict, estimate: Estimate) -> str:
    peak, sizes = estimate.get("peak_gib"), _sizes(estimate)
    if verdict == "borderline" and peak and sizes and is_hardly_enough(peak["low"], sizes[-1][0]):
        return "borderline: most likely too large"
    meaning = {
        "fits": "fits",
        "exceeds": "**exceeds**: cannot fit, whatever is not known",
        "borderline": "borderline: run a smoke test",
        "unknown": "unknown",
    }
    return meaning[verdict]


def _suggestions(estimate: Estimate) -> str:
    rows = [
        (
            escape(str(item["change"])),
            f"{_range(item['peak_gib'])} GiB",
            f"{item['saves_gib']:.1f} GiB" if item.get("saves_gib") else "",
            escape(str(item["verdict"])),
            escape(str(item["trade_off"])),
        )
        for item in estimate.get("suggestions", ())[:MAX_ROWS]
    ]
    return "**What would help**\n\n" + table(("change", "peak", "saves", "verdict", "cost"), rows) if rows else ""


def _terms(estimate: Estimate) -> str:
    rows = [
        (escape(str(term["name"])), f"{term['gib']:.2f}", code(str(term["formula"])))
        for term in estimate.get("terms", ())[:MAX_ROWS]
    ]
    if rows and (peak := estimate.get("peak_gib")):
        rows.append(("**expected**", f"**{peak['point']:.2f}**", "all of these"))
    moment = escape(str(estimate.get("moment") or "the peak"))
    content = f"Alive at: {moment}\n\n{table(('term', 'GiB', 'formula'), rows)}"
    return fold("Where the memory goes", content) if rows else ""


def _inputs(estimate: Estimate) -> str:
    rows = [
        (code(str(line["name"])), code(str(line["value"])), escape(str(line["origin"])))
        for line in estimate.get("inputs", ())[:MAX_ROWS]
    ]
    return fold("Inputs and where they come from", table(("input", "value", "from"), rows)) if rows else ""


def _unknowns(estimate: Estimate) -> str:
    names = [escape(str(name)) for name in estimate.get("unknowns", ())[:MAX_ROWS]]
    return f"**Not known** (each widens the interval): {'; '.join(names)}" if names else ""


def _reasons(estimate: Estimate) -> str:
    reasons = [escape(str(reason)) for reason in estimate.get("reasons", ())[:MAX_ROWS]]
    return "\n".join(f"- {reason}" for reason in reasons)
