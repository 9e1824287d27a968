"""Suggestion blocks: what a comment proposes, and applying it byte for byte as GitHub does."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt

from bot.localhub.errors import invalid
from bot.localhub.model import ReviewComment
from bot.localhub.payloads.comments import present_line

_MARKDOWN = MarkdownIt("commonmark", {"html": False})


@dataclass(frozen=True, slots=True)
class Change:
    """Lines `first` to `last` (1-based, inclusive, at the head) become `text`: empty, or whole lines."""

    first: int
    last: int
    text: str


def suggestion_in(body: str) -> str | None:
    """The content of the first suggestion block of a comment; None when it has none."""
    for token in _MARKDOWN.parse(body):
        if token.type == "fence" and token.info.split()[:1] == ["suggestion"]:
            return token.content
    return None


def change_of(comment: ReviewComment) -> Change:
    """What applying the comment's suggestion would do; refused where GitHub greys the button out."""
    text = suggestion_in(comment.body)
    if text is None or comment.line is None:
        raise _refused("This comment has no suggestion.")
    if comment.review.state == "PENDING":
        raise _refused("Suggestions cannot be applied from pending reviews.")
    if comment.side == "LEFT":
        raise _refused("Applying suggestions on deleted lines is not supported.")
    if comment.is_resolved:
        raise _refused("Suggestions cannot be applied on resolved threads.")
    last = present_line(comment, comment.line)
    first = present_line(comment, comment.start_line) if comment.start_line is not None else last
    if first is None or last is None or last - first != comment.line - (comment.start_line or comment.line):
        raise _refused("This suggestion is outdated: it cannot be applied.")
    return Change(first, last, text)


def apply_changes(content: bytes, changes: Sequence[Change]) -> bytes:
    """The file after all changes, which are all against `content`.

    A replaced line keeps the line end of the first line it replaces. A last line without one gets one.
    """
    lines = [line + b"\n" for line in content.split(b"\n")]
    if lines[-1] == b"\n":
        lines.pop()
    keeps_open_end = not content.endswith(b"\n") and all(change.last < len(lines) for change in changes)
    ordered = sorted(changes, key=lambda change: -change.first)
    for later, earlier in itertools.pairwise(ordered):
        if earlier.last >= later.first:
            raise _refused("Only one suggestion per line can be applied in a batch.")
    for change in ordered:
        if change.last > len(lines):
            raise _refused("This suggestion is outdated: it cannot be applied.")
        old = lines[change.first - 1 : change.last]
        end = b"\r\n" if old[0].endswith(b"\r\n") else b"\n"
        new = [line.encode() + end for line in change.text.split("\n")[:-1]]
        if new == old:
            raise _refused("This suggestion is invalid because no changes were made to the code.")
        lines[change.first - 1 : change.last] = new
    whole = b"".join(lines)
    return whole.removesuffix(b"\n") if keeps_open_end else whole


def _refused(message: str) -> Exception:
    return invalid("PullRequestReviewComment", "suggestion", message)
