"""HTML for people, from documents and numbers: Jinja templates that escape everything, one style sheet, no script.

No Flask here: the web process and ``preflight review --format html`` show the same page.
"""

from __future__ import annotations

import functools
import hashlib
import re
from datetime import datetime, timezone
from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from bot.render.markdown import count, unread, visible
from bot.render.pages import charts


def prose(text: object) -> Markup:
    """A sentence of ours that quotes code in backticks. Nothing in it acts."""
    parts = re.split(r"(`+)([^`]*)\1", str(text))
    shown = Markup("")
    for index in range(0, len(parts), 3):
        shown += escape(visible(parts[index]))
        if index + 2 < len(parts):
            shown += Markup("<code>{}</code>").format(visible(parts[index + 2]))
    return shown


def shown(text: object) -> str:
    """Any text of a stranger: what cannot be seen is spelled out. Jinja escapes the rest."""
    return visible(str(text))


def gib(value: float) -> str:
    """One digit is what the interval is worth."""
    return f"{value:.1f}"


def moment(seconds: float) -> str:
    """A time, in UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%-d %B %Y, %H:%M UTC")


@functools.cache
def environment() -> Environment:
    """The templates of this folder; every value is escaped, a missing one is an error."""
    loader = PackageLoader("bot.render.pages", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters.update({"prose": prose, "shown": shown, "gib": gib, "moment": moment, "path": _path, "count": _count})
    made.filters["unread"] = unread
    made.globals.update({"interval_bar": charts.interval_bar, "timeline": charts.timeline})
    return made


def _path(text: object) -> str:
    return quote(visible(str(text)))


def _count(number: int, noun: str) -> str:
    return count(number, noun)


@functools.cache
def style_sheet() -> tuple[str, str]:
    """The style sheet and the start of its hash, which names it."""
    text = resources.files("bot.render.pages").joinpath("preflight.css").read_text(encoding="utf-8")
    return text, hashlib.sha256(text.encode()).hexdigest()[:12]


def render(template: str, **values: Any) -> str:
    """One page. `inline_style` puts the style sheet into it, for a file that stands alone."""
    values.setdefault("inline_style", False)
    values.setdefault("user", None)
    text, name = style_sheet()
    style = Markup(text) if values["inline_style"] else ""  # noqa: S704  our own file
    page = environment().get_template(template).render(style_name=name, style_text=style, **values)
    return page.encode("utf-8", "replace").decode()  # a lone surrogate that somebody got past `shown` is no crash
