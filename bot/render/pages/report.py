"""The report as a page: the document of `bot.core.details` and, where somebody asked one, a what-if."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.render.pages import render

_WORDS = {
    "success": "passed",
    "failure": "blocked",
    "neutral": "neutral",
    "skipped": "skipped",
    "cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A value of the run that a person may change. `mode` is the keyboard a phone shows."""

    name: str
    label: str
    mode: str = "numeric"
    choices: tuple[str, ...] = ()


FIELDS = (
    Field("gpu", "GPU or instance", "text"),
    Field("num_gpus", "GPUs per node"),
    Field("micro_batch", "micro-batch"),
    Field("seq_len", "sequence length"),
    Field("precision", "precision", choices=("fp32", "amp-bf16", "amp-fp16", "pure-bf16", "pure-fp16")),
    Field("grad_checkpointing", "gradient checkpointing", choices=("none", "selective", "full")),
    Field("sharding", "sharding", choices=("none", "ddp", "zero1", "zero2", "zero3", "fsdp")),
    Field("offload", "offload", choices=("none", "optimizer", "params", "both")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What somebody asked and the answer: `estimate` (its JSON contract) or `error`."""

    launch: int
    chosen: frozenset[int] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict)
    edit: Mapping[str, Any] = field(default_factory=dict)
    estimate: Mapping[str, Any] | None = None
    error: str = ""


def report_page(
    document: Mapping[str, Any],
    *,
    form_url: str = "",
    stats_url: str = "",
    expires: int = 0,
    what_if: WhatIf | None = None,
    user: str | None = None,
    inline_style: bool = False,
) -> str:
    """The HTML. Without `form_url` (a file that stands alone) suggestions are a list and not a form."""
    findings = document["findings"]
    return render(
        "report.html",
        report=document,
        findings=[item for item in findings if item["rule"] != "PF501"],
        memory_findings=[item for item in findings if item["rule"] == "PF501"],
        conclusion_words=_WORDS,
        what_if_fields=FIELDS,
        what_if=what_if,
        form_url=form_url,
        stats_url=stats_url,
        expires=expires,
        user=user,
        inline_style=inline_style,
    )
