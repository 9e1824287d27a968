"""An estimate as Markdown for a comment or a check run."""

from __future__ import annotations

from bot.render.estimate_text import largest_text, said, size_of
from bot.render.markdown import code, escape, fold, table
from estimator.api import Estimate, Interval

_MARK = {"fits": "✅ fits", "exceeds": "❌ exceeds", "borderline": "⚠️ borderline", "unknown": "❔ unknown"}


def render(result: Estimate) -> str:
    """Targets with verdicts and what would help stay visible; terms, inputs and unknowns are folded."""
    sure = f"{escape(text[0].upper() + text[1:])}." if (text := largest_text(result)) else ""
    parts = [_headline(result), _targets(result), sure, _suggestions(result), _details(result)]
    return "\n\n".join(part for part in parts if part)


def _gib(value: Interval) -> str:
    gib = value.to_json()
    return f"{gib['low']:.1f} – **{gib['point']:.1f}** – {gib['high']:.1f} GiB"


def _headline(result: Estimate) -> str:
    name = code(result.model.id) if result.model.id else "this model"
    size = f" ({size_of(result.model.params)} parameters)" if result.model.params else ""
    if result.peak is None:
        reasons = "; ".join(escape(reason) for reason in result.reasons) or "too little is known"
        return f"**No number** for {name}{size}: {reasons}."
    floor = result.peak.to_json()["floor"]
    place = f"at {result.moment}; at least {floor:.1f} GiB"
    lines = [f"Peak memory of {name}{size} per GPU: {_gib(result.peak)} {place}."]
    lines += [f"{escape(reason)}." for reason in result.reasons]
    return "\n".join(lines)


def _targets(result: Estimate) -> str:
    if not result.targets:
        return ""
    peak = _gib(result.peak) if result.peak else "no number"
    rows = []
    for item in result.targets:
        usable = "not known" if item.usable_gib is None else f"{item.usable_gib:.1f} GiB"
        rows.append([escape(item.name), str(item.count), usable, peak, _MARK[item.verdict]])
    return table(["GPU", "count", "usable", "peak (low – expected – high)", "verdict"], rows)


def _suggestions(result: Estimate) -> str:
    if not result.suggestions:
        return ""
    rows = [
        [
            escape(item.change), _gib(item.peak), f"{item.saved / 2**30:.1f} GiB" if item.saved else "",
            _MARK[item.verdict], escape(item.trade_off),
        ]
        for item in result.suggestions
    ]  # fmt: skip
    return table(["what would help", "peak after", "saves", "verdict", "cost"], rows)


def _details(result: Estimate) -> str:
    parts = []
    if result.terms:
        rows = [[escape(term.name), f"{term.num_bytes / 2**30:.2f}", escape(term.formula)] for term in result.terms]
        total = sum(term.num_bytes for term in result.terms) / 2**30
        rows.append(["**expected**", f"**{total:.2f}**", "all of these"])
        parts.append(table([f"at {result.moment}", "GiB", "formula"], rows))
    if result.inputs:
        rows = [
            [code(line.name), code(said(line.name, line.value, line.origin)), escape(line.origin)]
            for line in result.inputs
        ]
        parts.append(table(["input", "value", "where it is from"], rows))
    if result.unknowns:
        parts.append(f"Not known (the interval covers what is usual): {'; '.join(map(escape, result.unknowns))}.")
    return fold("What this is made of", "\n\n".join(parts)) if parts else ""
