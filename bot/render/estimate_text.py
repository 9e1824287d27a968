"""An estimate for the terminal."""

from __future__ import annotations

from bot.render.tables import aligned
from estimator.api import Estimate, Interval


def render(result: Estimate) -> str:
    """Verdict and targets first, then what the peak is made of, what would help, and what was assumed."""
    sections = [_headline(result), _targets(result), _terms(result), _suggestions(result), _inputs(result)]
    return _printable("\n\n".join(section for section in sections if section))


def _printable(text: str) -> str:
    """Names come from files and people: no escape sequence of theirs reaches the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)


def interval(value: Interval) -> str:
    """``70.1 – 76.0 – 83.9 GiB (at least 66.0)``."""
    gib = value.to_json()
    return f"{gib['low']:.1f} – {gib['point']:.1f} – {gib['high']:.1f} GiB (at least {gib['floor']:.1f})"


def _headline(result: Estimate) -> str:
    name = result.model.id or "model"
    size = f", {result.model.params / 1e9:.2f}B parameters" if result.model.params else ""
    lines = [f"{result.verdict.upper()}: {name}{size}"]
    if result.peak is not None:
        lines.append(f"peak per GPU  {interval(result.peak)}, at {result.moment}")
    lines += [f"  {reason}" for reason in result.reasons]
    return "\n".join(lines)


def _targets(result: Estimate) -> str:
    rows = [
        [item.name, item.count, "?" if item.usable_bytes is None else f"{item.usable_bytes / 2**30:.1f}", item.verdict]
        for item in result.targets
    ]
    return aligned(["GPU", "count", "usable GiB", "verdict"], rows) if rows else ""


def _terms(result: Estimate) -> str:
    rows = [[term.name, f"{term.num_bytes / 2**30:8.2f}", term.formula] for term in result.terms]
    return aligned([f"at {result.moment}", "GiB", "formula"], rows) if rows else ""


def _suggestions(result: Estimate) -> str:
    if not result.suggestions:
        return ""
    rows = [
        [item.verdict, f"{item.peak.to_json()['point']:.1f}", item.change, item.trade_off]
        for item in result.suggestions
    ]
    return aligned(["then", "GiB", "change", "cost"], rows)


def _inputs(result: Estimate) -> str:
    lines = [f"{line.name} = {_shown(line.value)}  [{line.origin}]" for line in result.inputs]
    if result.unknowns:
        lines.append("not known (the interval covers it): " + "; ".join(result.unknowns))
    return "\n".join(lines)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
