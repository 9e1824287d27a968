"""What fits a run, as Markdown: instances with price, GPUs and the largest micro-batch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.render import limits
from bot.render.markdown import code, escape, table

if TYPE_CHECKING:
    from estimator.offers import Offer, Offers

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_VERDICTS = {
    "fits": "It fits its own target.",
    "borderline": "On its own target it is borderline.",
    "exceeds": "It cannot fit its own target.",
    "unknown": "",
}


def offers_text(head_sha: str, found: Sequence[tuple[str, Offers]], search: Sequence[str], more: int) -> str:
    """A table for each launch config. `more` are configs beyond those shown."""
    parts = [f"What fits at `{head_sha[:12]}`"]
    for path, item in found:
        parts += [f"**{code(path)}** {_present(item)}", _table(item, search)]
    if more > 0:
        parts.append(f"… and {more} more launch configs: name one to see it.")
    if any(item.offers for _, item in found):
        parts.append(
            "<sub>List prices per hour of all nodes, without storage and discounts, as public catalogs gave them; the "
            "cheapest of each provider and GPU. *Largest micro-batch*: with everything else as it is.</sub>"
        )
    return limits.body("\n\n".join(part for part in parts if part))


def _present(item: Offers) -> str:
    result = item.present
    if result.peak is None:
        return f"No number: {'; '.join(escape(reason) for reason in result.reasons) or 'too little is known'}."
    gib = result.peak.to_json()
    targets = ", ".join(escape(target.name) for target in result.targets)
    on = f" ({targets})" if targets else ""
    peak = f"Peak {gib['low']:.1f} – **{gib['point']:.1f}** – {gib['high']:.1f} GiB per GPU{on}."
    return f"{peak} {_VERDICTS[result.verdict]}".strip()


def _table(item: Offers, search: Sequence[str]) -> str:
    if item.present.peak is None:
        return ""
    if item.offers:
        head = ("instance", "GPUs", "USD per hour", "where and when", "peak per GPU", "largest micro-batch")
        return table(head, [_row(offer) for offer in item.offers])
    words = f" that match {', '.join(code(word) for word in search)}" if search else ""
    none = f"None of the {item.num_known} known instances{words} fits it as it is."
    if search and not item.num_known:
        none = (
            f"No known instance matches {', '.join(code(word) for word in search)}, and no launch config is called so."
        )
    helps = [one for one in item.present.suggestions if one.verdict == "fits"]
    lines = [
        f"- {escape(one.change)}: {one.peak.to_json()['point']:.1f} GiB ({escape(one.trade_off)})" for one in helps
    ]
    return "\n".join([none, *(["", "What would make it fit its own target:", "", *lines] if lines else [])])


def _row(offer: Offer) -> tuple[str, ...]:
    nodes = f"{offer.nodes} x " if offer.nodes > 1 else ""
    date = found[0] if (found := _DATE.search(offer.priced)) else "date not stated"
    return (
        f"{nodes}{code(offer.instance)} ({escape(offer.provider)})",
        f"{offer.gpus} x {escape(offer.gpu)}",
        f"{offer.usd_hour:.2f}",
        escape(f"{offer.region or 'region not stated'}, {date}"),
        f"{offer.peak.to_json()['point']:.1f} GiB",
        str(offer.largest_micro_batch or "less than 1"),
    )
