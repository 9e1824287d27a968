"""Slash commands as people write them: find the one command line of a comment, and read it into words.

A command stands at the start of a line of ordinary text. Lines in code, quotes, lists, HTML and HTML comments are
somebody talking *about* a command; a Markdown parser decides that, not a regular expression.
"""

from __future__ import annotations

import difflib
import pkgutil
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

PREFIX = "/preflight"
MAX_LINE = 1000  # characters of a command line; longer ones are nobody's command
MAX_WORDS = 64
_MODULES_THAT_ARE_NO_COMMANDS = frozenset({"base", "grammar"})
_AT_LINE_START = re.compile(r"^( {0,3})/preflight(?=[ \t]|$)", re.MULTILINE)
_RULE = re.compile(r"(?:pf|tg)\d{3}")
_MARK = re.compile("\ue000(\\d+)\ue001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that exists, and the words after its name."""

    name: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A line that calls us but is no command. `nearest` is what was probably meant."""

    line: str
    message: str
    nearest: str | None = None


def command_names() -> tuple[str, ...]:
    """The commands, from the files of this folder."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name for name in names if name not in _MODULES_THAT_ARE_NO_COMMANDS))


def command_line(body: str) -> str | None:
    """The first command line of a comment, trimmed; None when nobody talks to us."""
    text = body.replace("\r\n", "\n").replace("\r", "\n").replace("\ue000", "").replace("\ue001", "")
    lines: list[str] = []

    def mark(match: re.Match[str]) -> str:
        lines.append(text[match.start(1) : _line_end(text, match.start())].strip())
        return f"{match[1]}\ue000{len(lines) - 1}\ue001"

    marked = _AT_LINE_START.sub(mark, text)
    if not lines:
        return None
    for token in _markdown().parse(marked):
        # Level 1 is a paragraph of the document itself: not in a quote or a list.
        if token.type == "inline" and token.level == 1:
            for number in _spoken(token.children or []):
                return lines[number][:MAX_LINE]
    return None


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark").disable(["emphasis", "link", "image", "heading"])


def _spoken(children: list[Token]) -> list[int]:
    """The marks that begin a line of plain text."""
    found = []
    at_line_start = True
    for child in children:
        match = _MARK.match(child.content) if child.type == "text" and at_line_start else None
        if match:
            found.append(int(match[1]))
        at_line_start = child.type in {"softbreak", "hardbreak"}
    return found


def parse(body: str) -> Command | Mistake | None:
    """The first command of a comment, a `Mistake` for the person who made it, or None."""
    line = command_line(body)
    if line is None:
        return None
    try:
        words = shlex.split(line)[1:]
    except ValueError:
        return Mistake(line=line, message="a quotation mark is not closed")
    if len(words) > MAX_WORDS or len(line) >= MAX_LINE:
        return Mistake(line=line[:80], message=f"a command has at most {MAX_WORDS} words and {MAX_LINE} characters")
    if not words:
        return Command(name="help")
    name = words[0].lower()
    if name in command_names():
        return Command(name=name, words=tuple(words[1:]))
    if _RULE.fullmatch(name):
        return Mistake(line=line, message=f"{name.upper()} is a rule", nearest=f"explain {name.upper()}")
    near = difflib.get_close_matches(name, command_names(), n=1, cutoff=0.5)
    return Mistake(line=line, message=f"there is no command {words[0]!r}", nearest=near[0] if near else None)
