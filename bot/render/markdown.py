"""Text of strangers as Markdown that means only itself. Escaping lives here and nowhere else.

Names, paths and code of a pull request can hold mentions, links, images, HTML, table bars, backticks, and characters
that are invisible or turn the reading direction. They are shown, never obeyed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SPECIAL = re.compile(r"([\\`*_\[\]~|$!(){}])")
_BREAK = "\u200b"  # zero-width space: ends a mention, a reference or an address without being seen


def is_invisible(character: str) -> bool:
    """Whether a reader cannot see the character, tabs and newlines aside."""
    return unicodedata.category(character) in _INVISIBLE and character not in "\t\n"


def visible(text: str) -> str:
    """`text` with invisible and direction-turning characters spelled out (``⟨U+202E⟩``)."""
    return "".join(f"⟨U+{ord(char):04X}⟩" if is_invisible(char) else char for char in text)


def on_one_line(text: str) -> str:
    """`visible`, with line ends spelled out as well: names of files may hold them, and the next line is not theirs."""
    return visible(text).replace("\n", "⟨U+000A⟩")


def code(text: str, limit: int = 200) -> str:
    """An inline code span of one line; nothing inside it acts."""
    shown = visible(" ".join(text.split("\n"))).replace("\t", " ")
    if len(shown) > limit:
        shown = shown[: limit - 1] + "…"
    if not shown.strip():
        return "` `"
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def escape(text: str) -> str:
    """Running text on one line that mentions nobody, links nowhere and formats nothing."""
    shown = visible(" ".join(text.split("\n"))).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = _SPECIAL.sub(r"\\\1", shown)
    shown = re.sub(r"^(\s*)([-+=#]|\d+[.)])", r"\1" + _BREAK + r"\2", shown)
    # GitHub turns @name, #1, GH-1, addresses, host names and commit ids into links after Markdown has been read.
    shown = re.sub(r"@(?=\w)", "@" + _BREAK, shown)
    shown = re.sub(r"(?<![&])#(?=\w)", "#" + _BREAK, shown)
    shown = re.sub(r"(?i)\bGH-(?=\d)", "GH" + _BREAK + "-", shown)
    shown = re.sub(r"(?i):(?=//)|\b[a-z][a-z0-9+.\-]*(?=:\S+@)", r"\g<0>" + _BREAK, shown)
    shown = re.sub(r"(?i)\bwww\.", "www" + _BREAK + ".", shown)
    return re.sub(r"\b([0-9a-f]{6})(?=[0-9a-f]{1,58}\b)", r"\1" + _BREAK, shown)


def prose(text: str) -> str:
    """A sentence of ours that quotes code in single backticks, as findings' messages and notes do."""
    parts = text.split("`")
    last = len(parts) - 1
    shown = []
    for index, part in enumerate(parts):
        is_code = index % 2 == 1 and index < last
        shown.append(code(part) if is_code else escape(part) if index == 0 or part else "")
        if index == last and last % 2 == 1:
            shown[-1] = "\\`" + escape(part)
    return "".join(shown)


def cell(markdown: str) -> str:
    """Finished Markdown made safe for a table cell. A bar is data only after an odd number of backslashes."""
    line = markdown.replace("\n", " ")
    return re.sub(r"(\\*)\|", lambda match: match[0] if len(match[1]) % 2 else f"{match[1]}\\|", line)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of finished Markdown cells."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell(item) for item in line)} |" for line in lines)


def fold(title: str, content: str) -> str:
    """Content that is closed until somebody opens it. `title` is our own plain text."""
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks in it."""
    shown = visible(text)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    newline = "" if shown.endswith("\n") else "\n"
    return f"{fence}{language}\n{shown}{newline}{fence}"


def count(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def num_unread(skipped: Iterable[Mapping[str, object]]) -> tuple[int, int]:
    """How many files were not analysed at all, and of how many only a part was; of notes as JSON has them."""
    notes = [(item["path"], bool(item.get("partial"))) for item in skipped]
    whole = {path for path, is_part in notes if not is_part}
    return len(whole), len({path for path, _ in notes} - whole)


def unread(skipped: Iterable[Mapping[str, object]]) -> str:
    """``1 file not analysed, 2 in part``."""
    num_whole, num_partly = num_unread(skipped)
    whole = f"{count(num_whole, 'file')} not analysed" if num_whole else ""
    partly = f"{num_partly:,} in part" if num_whole else f"{count(num_partly, 'file')} analysed in part"
    return ", ".join(part for part in (whole, partly if num_partly else "") if part)


@dataclass(frozen=True, slots=True)
class Links:
    """Where lines of one commit can be looked at; without a repository's page, places stay plain."""

    web_url: str
    full_name: str
    sha: str
    has_page: bool

    def line(self, path: str, line: int) -> str:
        """A place in a file: a link where there is a page for it."""
        label = code(f"{path}:{line}")
        if not self.has_page:
            return label
        return f"[{label}]({self.web_url}/{self.full_name}/blob/{self.sha}/{quote(path)}#L{line})"
