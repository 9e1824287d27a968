"""Suggested changes: a finding's edits as whole lines that GitHub can apply byte for byte.

GitHub replaces exactly the anchored lines ``start_line..line`` (of the head) with the block. So the block is cut from
the head blob itself, never from a rendered diff, and there is none where applying could do something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.findings import Edit, Position
from bot.core.diff import Commentable, hunk_of

_TURNS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
MAX_LINES = 40  # a longer block is not read before it is applied


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Replace the lines ``start_line..line`` (1-based, inclusive) by `text`.

    Every line of `text` ends with a newline; an empty `text` deletes the lines.
    """

    start_line: int
    line: int
    text: str

    @property
    def block(self) -> str:
        """The fenced block, its fence longer than any run of backticks in the code."""
        runs = [len(run) for run in re.findall(r"`+", self.text)]
        fence = "`" * max([3, *(length + 1 for length in runs)])
        return f"{fence}suggestion\n{self.text}{fence}"


@dataclass(frozen=True, slots=True)
class NoSuggestion:
    """Why there is no block, in words for the person."""

    reason: str


def suggest(edits: Sequence[Edit], path: str, blob: bytes, lines: Commentable) -> Suggestion | NoSuggestion:
    """The suggestion that does what `edits` do to the head's `blob`, where `lines` can carry it."""
    text = _text(blob)
    if isinstance(text, NoSuggestion):
        return text
    if any(edit.span.path != path for edit in edits):
        return NoSuggestion("the change touches another file as well")
    changed = _applied(text, edits)
    if isinstance(changed, NoSuggestion):
        return changed
    if changed == text:
        return NoSuggestion("nothing would change")
    return _as_lines(text.split("\n"), changed.split("\n"), lines)


def apply(suggestion: Suggestion, blob: bytes) -> bytes:
    """What GitHub makes of `blob` when the suggestion is applied."""
    lines = blob.decode().split("\n")
    lines[suggestion.start_line - 1 : suggestion.line] = suggestion.text.split("\n")[:-1]
    return "\n".join(lines).encode()


def _text(blob: bytes) -> str | NoSuggestion:
    if b"\r" in blob:
        return NoSuggestion("the file has CRLF line ends, which GitHub may rewrite")
    try:
        text = blob.decode()
    except UnicodeDecodeError:
        return NoSuggestion("the file is not UTF-8")
    if "\0" in text or text.startswith("\ufeff"):
        return NoSuggestion("the file holds characters that do not survive in a comment")
    return text


def _applied(text: str, edits: Sequence[Edit]) -> str | NoSuggestion:
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    placed = []
    for edit in edits:
        start, end = _offset(starts, edit.span.start), _offset(starts, edit.span.end)
        if start is None or end is None or end < start:
            return NoSuggestion("the change lies outside the file")
        if "\r" in edit.text or "\0" in edit.text:
            return NoSuggestion("the change holds characters that do not survive in a comment")
        placed.append((start, end, edit.text))
    placed.sort(key=lambda item: item[:2])
    parts, done = [], 0
    for start, end, replacement in placed:
        if start < done:
            return NoSuggestion("two parts of the change overlap")
        parts += [text[done:start], replacement]
        done = end
    return "".join([*parts, text[done:]])


def _offset(starts: Sequence[int], at: Position) -> int | None:
    if not 1 <= at.line < len(starts) or at.column < 0:
        return None
    offset = starts[at.line - 1] + at.column
    return offset if offset < starts[at.line] else None


def _as_lines(old: list[str], new: list[str], lines: Commentable) -> Suggestion | NoSuggestion:
    """`old` and `new` are split at newlines: their last item is what follows the last newline."""
    top = _common_prefix(old, new)
    bottom = _common_prefix(old[top:][::-1], new[top:][::-1])
    start, end = top, len(old) - bottom
    if start == end:  # lines are only inserted: some line must be anchored and repeated
        start, end = _anchored(old, start, lines)
    if end == len(old):
        # The item after the last newline: either no line at all, or a line GitHub would end with a newline.
        return NoSuggestion("the last line has no newline at its end" if old[-1] else "the file's end would change")
    if end - start > MAX_LINES:
        return NoSuggestion(f"the change spans more than {MAX_LINES} lines")
    if hunk_of(lines, start + 1, end) is None:
        return NoSuggestion("the change is not within one part of the diff")
    replacement = new[start : len(new) - (len(old) - end)]
    if any(_TURNS.search(line) for line in replacement):
        return NoSuggestion("the lines hold characters that turn the reading direction")
    return Suggestion(start_line=start + 1, line=end, text="".join(f"{line}\n" for line in replacement))


def _anchored(old: Sequence[str], at: int, lines: Commentable) -> tuple[int, int]:
    """The line before an insertion, or the one after it where that one says more than an empty line."""
    before = (at - 1, at) if at > 0 else None
    after = (at, at + 1)
    if before and not old[at - 1].strip() and ("RIGHT", at + 1) in lines and at + 1 < len(old):
        return after
    if before and (("RIGHT", at) in lines or at + 1 >= len(old)):
        return before
    return after


def _common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
