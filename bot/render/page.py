"""The page of a rule, which is Markdown, for a person at a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator

_HEADINGS = {"Example": "Example (reported)", "Use instead": "Use instead (quiet)"}
_LINK = re.compile(r"\[([^\]]+)\]\((?:https?:|[\w./-]+\.md)[^)]*\)")


def plain(page: str) -> str:
    """`page` without Markdown's marks: headings underlined, code set in, ``names`` between single backticks."""
    lines = list(_lines(page))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


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
