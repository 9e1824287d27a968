"""How the demonstration looks in a terminal. Text from the hub is printed without its control characters."""

from __future__ import annotations

import html
import re
import sys
import textwrap
from typing import Any

_HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)
_TAGS = re.compile(r"</?(?:details|summary|sub|br)(?: open)?>")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BLANKS = re.compile(r"\n{3,}")
_LINK = re.compile(r"\[([^\]]*)\]\([^)\s]*\)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")  # any punctuation of ASCII, as CommonMark has it
_CODE = re.compile(r"((?<![\\`])(`+)(?!`).+?(?<!`)\2(?!`))")
_FOOTER = re.compile(r"^Not a defect\?.*$", re.MULTILINE)
_MAX_LINES = 40
_MAX_SUMMARY_LINES = 24


def _colour(code: str, text: str) -> str:
    return f"\033[{code}m{text}\033[0m" if sys.stdout.isatty() else text


def say(text: str = "") -> None:
    """One line, at once."""
    print(text, flush=True)  # noqa: T201 - this module is what prints


def step(text: str) -> None:
    """What happens now."""
    say(f"{_colour('36', '·')} {text}")


def heading(text: str) -> None:
    """A part of the answer."""
    say(f"\n{_colour('1', text)}")


def markdown(text: str | None, indent: str = "    ", max_lines: int = _MAX_LINES) -> None:
    """A comment as plain text: hidden markers and folds are left out, the rest is as written."""
    plain = _CONTROL.sub("", _TAGS.sub("", _HIDDEN.sub("", text or "")))
    plain = _LINK.sub(r"\1", _FOOTER.sub("", plain))
    lines = _as_read(_BLANKS.sub("\n\n", plain).strip().split("\n"))
    for line in lines[:max_lines]:
        wraps = not line.startswith(("|", " ", "```", "+", "-")) and len(line) > 110
        for piece in textwrap.wrap(line, 110) if wraps else [line]:
            say(f"{indent}{piece}")
    if len(lines) > max_lines:
        say(f"{indent}… {len(lines) - max_lines} more lines on the page")


def _as_read(lines: list[str]) -> list[str]:
    """Without the escapes that a browser would not show; in code nothing is one, but for the bar of a table's cell."""
    found, in_fence = [], False
    for line in lines:
        is_fence = line.lstrip().startswith("```")
        in_fence ^= is_fence
        found.append(line if in_fence or is_fence else _unescaped(line))
    return found


def _unescaped(line: str) -> str:
    parts: list[str] = []
    end = 0
    for span in _CODE.finditer(line):
        code = span[0].replace("\\|", "|") if line.startswith("|") else span[0]
        parts += [_text(line[end : span.start()]), code]
        end = span.end()
    return "".join([*parts, _text(line[end:])])


def _text(markdown_text: str) -> str:
    return html.unescape(_ESCAPE.sub(r"\1", markdown_text)).replace("\u200b", "")


def place(comment: dict[str, Any]) -> str:
    """``path:line`` or ``path:first-last``."""
    line = comment["line"] or comment["original_line"]
    start = comment.get("start_line")
    return f"{comment['path']}:{start}-{line}" if start else f"{comment['path']}:{line}"


def review(seen: dict[str, Any]) -> None:
    """The review: its text, then each comment with its place."""
    comments = seen["review_comments"]
    num_suggestions = sum("```suggestion" in item["body"] for item in comments)
    reviews = [item for item in seen["reviews"] if item["state"] != "PENDING"]
    heading(f"Review: {len(reviews)} review, {len(comments)} comments, {num_suggestions} with a suggested change")
    for item in reviews:
        markdown(item["body"])
    for item in comments:
        say(f"\n  {_colour('33', place(item))}")
        markdown(item["body"])


def checks(seen: dict[str, Any]) -> None:
    """The newest run of each check."""
    colours = {"success": "32", "failure": "31"}
    for name, run in sorted({run["name"]: run for run in seen["check_runs"]}.items()):
        mark = _colour(colours.get(run["conclusion"], "33"), str(run["conclusion"]))
        heading(f"{name}: {mark} - {run['output']['title']}")
        if "/r/" in str(run["details_url"]):
            say(f"    the report: {run['details_url']}")
        markdown(run["output"]["summary"], max_lines=_MAX_SUMMARY_LINES)
        text = (run["output"]["text"] or "").partition("<details>")[0]
        markdown(text, max_lines=_MAX_SUMMARY_LINES)
