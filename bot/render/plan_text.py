"""A plan for people without GitHub: as Markdown, and plain for a terminal."""

from __future__ import annotations

import re

from bot.core.plan import CheckOutcome, Plan, ReviewComment
from bot.render.markdown import code, escape, visible

_CODE = re.compile(
    r"\\.|(?m:^(?P<fence>`{3,})[^\n]*\n(?:.*\n)*?(?P=fence)$)|(?<!`)(?P<ticks>`+)(?!`)(?:.|\n)+?(?<!`)(?P=ticks)(?!`)"
)
_HIDDEN = re.compile(r"<!--.*?-->\n*", re.DOTALL)


def markdown(plan: Plan) -> str:
    """Checks, review and summary, one after the other."""
    parts = [part for check in plan.checks for part in (f"## {check.name}: {check.conclusion}", *_check_parts(check))]
    if plan.comments:
        parts += ["## Review", plan.review_body]
    for comment in plan.comments:
        parts += [f"### {code(_place(comment))}", _HIDDEN.sub("", comment.body)]
    if plan.summary:
        parts += ["## Summary comment", _HIDDEN.sub("", plan.summary)]
    return "\n\n".join(part for part in parts if part)


def _check_parts(check: CheckOutcome) -> list[str]:
    return [f"**{escape(check.title)}**", check.summary, check.text]


def terminal(plan: Plan) -> str:
    """Checks with their annotations, then the comments; control characters of the reviewed code are spelled out."""
    lines = [f"{check.name}: {check.conclusion} - {check.title}" for check in plan.checks]
    for check in plan.checks:
        for note in check.annotations:
            lines += ["", f"{note.path}:{note.start_line}: {note.level}: {note.title}", f"  {note.message}"]
    for comment in plan.comments:
        body = _HIDDEN.sub("", comment.body)
        lines += ["", f"{_place(comment)}:", *(f"  {line}" for line in _plain(body).split("\n"))]
    return "\n".join(visible(line) for line in lines)


def _place(comment: ReviewComment) -> str:
    first = f"{comment.start_line}-" if comment.start_line else ""
    return f"{comment.path}:{first}{comment.line}"


def _plain(body: str) -> str:
    """Markdown of ours without what only a browser needs. Code stays as it is: ``x ** 2`` is no bold text."""
    parts, done = [], 0
    for code_span in _CODE.finditer(body):
        if not code_span[0].startswith("\\"):
            parts += [_unmarked(body[done : code_span.start()]), code_span[0]]
            done = code_span.end()
    return re.sub(r"\n{3,}", "\n\n", "".join([*parts, _unmarked(body[done:])]))


def _unmarked(text: str) -> str:
    text = re.sub(r"</?sub>|\u200b|\*\*", "", text)
    text = re.sub(r"\\([\\`*_\[\]~|$!(){}])", r"\1", text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
