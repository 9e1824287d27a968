"""GitHub's limits on text, and cutting to them: on a line, with fences and folds closed, saying how much is gone.

A request with one over-long field is refused whole, so a check would hang exactly on the largest pull requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_CHECK_TEXT = 65_535  # bytes, of `output.summary` and of `output.text`
MAX_TITLE = 255  # characters, of a check or an annotation
MAX_BODY = 65_536  # characters, of a comment or a review
MAX_ANNOTATION = 65_536  # bytes, of an annotation's message and raw details

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def check_text(text: str) -> str:
    """`text` cut to what a check run's summary or text holds."""
    return _cut(text, MAX_CHECK_TEXT, _num_bytes)


def body(text: str) -> str:
    """`text` cut to what a comment or a review holds."""
    return _cut(text, MAX_BODY, len)


def characters(text: str, most: int) -> str:
    """`text` cut to `most` characters."""
    return _cut(text, most, len)


def annotation_text(text: str) -> str:
    """`text` cut to what an annotation holds. It is plain text: nothing to close."""
    return _cut(text, MAX_ANNOTATION, _num_bytes)


def title(text: str) -> str:
    """One line of at most 255 characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1] + "…"


def cut(text: str, max_bytes: int) -> str:
    """`text` cut to `max_bytes` bytes of UTF-8."""
    return _cut(text, max_bytes, _num_bytes)


def _num_bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _cut(text: str, limit: int, measure: Callable[[str], int]) -> str:
    size = measure(text)
    if size <= limit:
        return text
    unit = "bytes" if measure is _num_bytes else "characters"
    open_blocks = _OpenBlocks()
    kept, used, best = 0, 0, (0, "")
    for line in text.split("\n"):
        used += measure(line) + 1
        kept += len(line) + 1
        open_blocks.read(line)
        tail = f"{open_blocks.closing()}\n… cut: {size - used:,} of {size:,} {unit} more\n"
        if used + measure(tail) > limit:
            break
        best = (kept, tail)
    if best[0]:
        return text[: best[0]] + best[1]
    return _cut_in_line(text, size, limit, measure, unit)


def _cut_in_line(text: str, size: int, limit: int, measure: Callable[[str], int], unit: str) -> str:
    """The first line alone is too long: keep what fits of it."""
    tail = f"… cut: {size:,} {unit} in all"
    keep = max(0, limit - measure(tail))
    head = text[:keep]
    while head and measure(head) > keep:
        head = head[: -max(1, (measure(head) - keep) // 4)]
    return head + tail if measure(tail) <= limit else ""


class _OpenBlocks:
    """Which fences and folds are open after the lines read so far."""

    def __init__(self) -> None:
        self._fence = ""
        self._num_folds = 0

    def read(self, line: str) -> None:
        match = _FENCE.match(line)
        if self._fence:
            if match and not match[2].strip() and match[1].startswith(self._fence):
                self._fence = ""
        elif match and not (match[1][0] == "`" and "`" in match[2]):
            self._fence = match[1]
        else:
            self._num_folds = max(0, self._num_folds + line.count("<details>") - line.count("</details>"))

    def closing(self) -> str:
        fence = f"{self._fence}\n" if self._fence else ""
        return fence + "\n</details>\n" * self._num_folds
