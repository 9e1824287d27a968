"""An estimate as Markdown for a comment or a check run."""

from __future__ import annotations

import re

from estimator.api import Estimate, Interval

_MARK = {"fits": "✅ fits", "exceeds": "❌ exceeds", "borderline": "⚠️ borderline", "unknown": "❔ unknown"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&@-])")


def escape(text: object) -> str:
    """Text of a person or a file that may not become Markdown, HTML, a mention or a table cell."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())
    escaped = _SPECIAL.sub(lambda match: f"&#{ord(match[1])};", flat)
    return re.sub(r"(?i)\b(https?|www)([:.])", lambda match: f"{match[1]}&#{ord(match[2])};", escaped)


def render(result: Estimate) -> str:
    """Targets with verdicts, then folded details: terms, inputs, unknowns; suggestions stay visible."""
    parts = [_headline(result), _targets(result), _suggestions(result), _details(result)]
    return "\n\n".join(part for part in parts if part)


def _gib(value: Interval) -> str:
    gib = value.to_json()
    return f"{gib['low']:.1f} – **{gib['point']:.1f}** – {gib['high']:.1f} GiB"


def _headline(result: Estimate) -> str:
    name = escape(result.model.id or "model")
    size = f" ({result.model.params / 1e9:.2f}B parameters)" if result.model.params else ""
    if result.peak is None:
        reasons = "; ".join(escape(reason) for reason in result.reasons) or "too little is known"
        return f"**No number for {name}{size}**: {reasons}."
    floor = result.peak.to_json()["floor"]
    place = f"at {escape(result.moment)}; at least {floor:.1f} GiB"
    lines = [f"Peak memory of {name}{size} per GPU: {_gib(result.peak)} {place}."]
    lines += [f"{escape(reason)}." for reason in result.reasons]
    return "\n".join(lines)


def _targets(result: Estimate) -> str:
    if not result.targets:
        return ""
    peak = _gib(result.peak) if result.peak else "no number"
    rows = ["| GPU | count | usable | peak (low – expected – high) | verdict |", "| --- | ---: | ---: | --- | --- |"]
    for item in result.targets:
        usable = "not known" if item.usable_bytes is None else f"{item.usable_bytes / 2**30:.1f} GiB"
        rows.append(f"| {escape(item.name)} | {item.count} | {usable} | {peak} | {_MARK[item.verdict]} |")
    return "\n".join(rows)


def _suggestions(result: Estimate) -> str:
    if not result.suggestions:
        return ""
    rows = ["| what would help | peak after | verdict | cost |", "| --- | --- | --- | --- |"]
    for item in result.suggestions:
        rows.append(f"| {escape(item.change)} | {_gib(item.peak)} | {_MARK[item.verdict]} | {escape(item.trade_off)} |")
    return "\n".join(rows)


def _details(result: Estimate) -> str:
    lines: list[str] = []
    if result.terms:
        lines += [f"| at {escape(result.moment)} | GiB | formula |", "| --- | ---: | --- |"]
        lines += [f"| {escape(t.name)} | {t.num_bytes / 2**30:.2f} | {escape(t.formula)} |" for t in result.terms]
    if result.inputs:
        lines += ["", "| input | value | where it is from |", "| --- | --- | --- |"]
        lines += [f"| {escape(i.name)} | {escape(i.value)} | {escape(i.origin)} |" for i in result.inputs]
    if result.unknowns:
        lines += [
            "",
            "Not known (the interval covers it): " + "; ".join(escape(item) for item in result.unknowns) + ".",
        ]
    if not lines:
        return ""
    return "\n".join(["<details><summary>What this is made of</summary>", "", *lines, "", "</details>"])
