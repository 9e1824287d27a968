"""An estimate for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from bot.render.markdown import is_invisible
from bot.render.tables import aligned
from estimator.api import Estimate, Interval

WIDTH = 110
_BAR = 12
_LONG = 10**6  # from here on digits are counted off in threes
_EIGHTHS = " ▏▎▍▌▋▊▉"


def render(result: Estimate, width: int = WIDTH) -> str:
    """Verdict and targets first, then what fits, what would help, what the peak is made of, and what was assumed."""
    sections = [
        _headline(result, width),
        _targets(result),
        _largest(result, width),
        _suggestions(result, width),
        _terms(result, width),
        _inputs(result, width),
    ]
    return _printable("\n\n".join(section for section in sections if section))


def _printable(text: str) -> str:
    """Names come from files and people: no escape sequence and no invisible character of theirs gets through."""
    return "".join("�" if is_invisible(char) or char == "\t" else char for char in text)


def interval(value: Interval) -> str:
    """``76.0 GiB expected, 70.1 to 83.9 plausible, at least 66.0``."""
    gib = value.to_json()
    return (
        f"{gib['point']:.1f} GiB expected, {gib['low']:.1f} to {gib['high']:.1f} plausible, at least {gib['floor']:.1f}"
    )


def _headline(result: Estimate, width: int) -> str:
    params = f"{size_of(result.model.params)} parameters" if result.model.params else ""
    unnamed = f"a model of {params}" if params else "no model"
    name = f"{result.model.id}{', ' if params else ''}{params}" if result.model.id else unnamed
    lines = [f"{result.verdict.upper()}: {name}"]
    if result.peak is not None:
        peak = f"peak per GPU: {interval(result.peak)}; highest at {result.moment}"
        lines += _wrap(peak, width, subsequent_indent="  ")
    for reason in result.reasons:
        lines += _wrap(reason, width, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def _targets(result: Estimate) -> str:
    rows = [
        [item.name, item.count, "?" if item.usable_gib is None else f"{item.usable_gib:.1f}", item.verdict]
        for item in result.targets
    ]
    return aligned(["GPU", "count", "usable GiB", "verdict"], rows) if rows else ""


def _suggestions(result: Estimate, width: int) -> str:
    if not result.suggestions:
        return ""
    lines = ["what would help", f"  {'then':<12}{'GiB':>7}  {'up to':>7}  {'saves':>7}  change"]
    for item in result.suggestions:
        gib = item.peak.to_json()
        saved = f"{item.saved / 2**30:.1f}" if item.saved else ""
        start = f"  {item.verdict:<12}{gib['point']:>7.1f}  {gib['high']:>7.1f}  {saved:>7}  "
        cost = "" if item.trade_off == "none" else f". Cost: {item.trade_off}"
        blank = " " * len(start)
        lines += _wrap(item.change + cost, width, initial_indent=start, subsequent_indent=blank)
    return "\n".join(lines)


def _terms(result: Estimate, width: int) -> str:
    """What lives at the moment of the peak, and what is expected beyond it; the last row is the sum."""
    most = max((term.num_bytes for term in result.terms), default=0)
    rows = [
        [term.name, f"{term.num_bytes / 2**30:8.2f}", bar(term.num_bytes, most), term.formula] for term in result.terms
    ]
    if rows:
        rows.append(["expected", f"{sum(term.num_bytes for term in result.terms) / 2**30:8.2f}", "", "all of these"])
    return aligned([f"at {result.moment}", "     GiB", "", "formula"], rows, width) if rows else ""


def bar(part: int, most: int) -> str:
    """As many blocks, down to an eighth, as the part is of the largest."""
    eighths = round(8 * _BAR * max(part, 0) / most) if most else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _largest(result: Estimate, width: int) -> str:
    text = largest_text(result)
    return "\n".join(_wrap(text, width, subsequent_indent="  ")) if text else ""


def largest_text(result: Estimate) -> str:
    """``sure to fit, all else as it is: micro_batch up to 3; seq_len up to 4,096 (all positions of the model)``."""
    none = " and no ".join(item.name for item in result.largest if item.value is None)
    if none:
        where = " on each of them" if len(result.targets) > 1 else ""
        return f"no {none}, however small, is sure to fit{where} with all else as it is"
    ends = {"model": " (all positions of the model)", "search": " and more", None: ""}
    parts = [f"{item.name} up to {item.value:,}{ends[item.ends]}" for item in result.largest]
    where = " on each of them" if len(result.targets) > 1 else ""
    return f"sure to fit{where}, all else as it is: {'; '.join(parts)}" if parts else ""


def _inputs(result: Estimate, width: int) -> str:
    lines = [
        part
        for line in result.inputs
        for part in _input(line.name, said(line.name, line.value, line.origin), line.origin, width)
    ]
    if result.unknowns:
        text = "not known (the interval covers what is usual): " + "; ".join(result.unknowns)
        lines += _wrap(text, width, subsequent_indent="  ")
    return "\n".join(lines)


def _input(name: str, value: str, origin: str, width: int) -> Iterator[str]:
    """An option that only repeats itself is named without its value."""
    where = origin[: -len(value)].rstrip() if origin.startswith("--") and origin.endswith(f" {value}") else origin
    yield from _wrap(f"{name} = {value}  [{where}]", width, subsequent_indent="    ")


def _wrap(text: str, width: int, *, initial_indent: str = "", subsequent_indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=initial_indent, subsequent_indent=subsequent_indent, break_on_hyphens=False
    )


def size_of(params: int) -> str:
    """``6.74B``, ``31.0M``, ``195,738``."""
    if params >= 100_000_000:
        return f"{params / 1e9:.2f}B"
    return f"{params / 1e6:.1f}M" if params >= 1_000_000 else f"{params:,}"


def said(name: str, value: object, origin: str) -> str:
    """An input's value in the words of its place: one word of the vocabulary stands for optimizers of the same size."""
    is_other = name == "optimizer" and "adam" in origin.lower() and "adamw" not in origin.lower()
    if name == "image_size" and isinstance(value, list):
        return "x".join(map(str, value))
    return f"{shown(value)} (Adam: same size)" if is_other and str(value).startswith("adamw") else shown(value)


def shown(value: object) -> str:
    """An input's value; of a network of the repository its name and the inputs that fit it."""
    if isinstance(value, dict) and "passes" in value:
        passes = sorted(value["passes"], key=lambda each: each["shape"])
        shapes = list(dict.fromkeys("x".join(map(str, each["shape"])) for each in passes))
        return f"{value['name']}, {value['params']:,} parameters" + (f", on {' or '.join(shapes)}" if shapes else "")
    if isinstance(value, int) and value >= _LONG:
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
