"""The page of a rule, which is Markdown, for a person at a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

_HEADINGS = {"Example": "Example (reported)", "Use instead": "Use instead (quiet)"}
_ENTRY = re.compile(r"[*-] |\d+\. ")
_LINK = re.compile(r"\[([^\]]+)\]\((?:https?:|[\w./-]+\.md)[^)]*\)")


def plain(page: str, width: int | None = None) -> str:
    """`page` without Markdown's marks: headings underlined, code set in, ``names`` between single backticks.

    Prose is as wide as its file has it, or `width`.
    """
    lines = list(_lines(page if width is None else "\n".join(_filled(page, width))))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


def _filled(page: str, width: int) -> Iterator[str]:
    """The lines of `page`, its paragraphs and the entries of its lists filled anew."""
    in_code, block = False, list[str]()
    for line in [*page.split("\n"), ""]:
        is_mark = line.startswith("```")
        is_prose = not in_code and not is_mark and line.strip() != "" and not line.startswith(("#", "|"))
        if block and (not is_prose or _ENTRY.match(line)):
            indent = " " * (len(found[0]) if (found := _ENTRY.match(block[0])) else 0)
            text = " ".join(part.strip() for part in block)
            yield from textwrap.wrap(
                text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
            )
            block = []
        if is_prose:
            block.append(line)
        else:
            in_code ^= is_mark
            yield line


def _lines(page: str) -> Iterator[str]:
    in_code = False
    for line in page.split("\n"):
        if line.startswith("```"):
            in_code = not in_code
            yield ""
        elif in_code:
            yield f"    {line}".rstrip()
        elif line.startswith("#"):
            level, _, title = line.partition(" ")
            shown = _HEADINGS.get(title, title)
            yield from ("", shown, ("=" if level == "#" else "-") * len(shown))
        else:
            yield _LINK.sub(r"\1", line).replace("``", "`").replace("**", "")
