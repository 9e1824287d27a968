"""Diff lines and suggested changes, against git's own idea of a patch and of applying."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.findings import Edit, Position, Span
from bot.core.diff import commentable, hunk_of
from bot.core.suggestions import NoSuggestion, Suggestion, apply, suggest

LINES = st.lists(st.text(alphabet="ab \t`\u2028\x0cé", max_size=6), min_size=1, max_size=12)


def patch_of(old: list[str], new: list[str]) -> str:
    return "\n".join(list(difflib.unified_diff(old, new, lineterm=""))[2:])


@given(LINES, LINES)
def test_right_lines_hold_what_the_patch_shows(old: list[str], new: list[str]) -> None:
    patch = patch_of(old, new)
    right = sorted(line for side, line in commentable(patch) if side == "RIGHT")
    shown = [text[1:] for text in patch.split("\n") if text[:1] in ("+", " ")]
    assert shown == [new[line - 1] for line in right]


def test_no_newline_marks_and_two_hunks() -> None:
    patch = "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\r\n@@ -9 +9,2 @@ def f\n x\n+y"
    lines = commentable(patch)
    assert {1, 2, 9, 10} == {line for side, line in lines if side == "RIGHT"}
    assert {1, 2, 9} == {line for side, line in lines if side == "LEFT"}
    assert (hunk_of(lines, 1, 2), hunk_of(lines, 2, 9), hunk_of(lines, 9, 10)) == (0, None, 1)


@pytest.mark.parametrize("patch", [None, "", "Binary files differ", "@@ garbage", "+x\n-y"])
def test_what_is_no_patch_carries_no_comment(patch: str | None) -> None:
    assert commentable(patch) == {}


def whole(text: str) -> dict[tuple[str, int], int]:
    return {("RIGHT", number): 0 for number in range(1, text.count("\n") + 1)}


@given(LINES, st.data())
def test_applying_the_suggestion_is_applying_the_edit(lines: list[str], data: st.DataObject) -> None:
    text = "".join(f"{line}\n" for line in lines)
    first = data.draw(st.integers(1, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    start = data.draw(st.integers(0, len(lines[first - 1])))
    end = data.draw(st.integers(start if first == last else 0, len(lines[last - 1])))
    new = data.draw(st.text(alphabet="ab\n` ", max_size=8))
    edit = Edit(Span("t.py", Position(first, start), Position(last, end)), new)
    split = text.split("\n")
    before = "\n".join([*split[: first - 1], split[first - 1][:start]])
    after = "\n".join([split[last - 1][end:], *split[last:]])
    wanted = before + new + after
    got = suggest([edit], "t.py", text.encode(), whole(text))  # type: ignore[arg-type]
    if isinstance(got, Suggestion):
        assert wanted.encode() == apply(got, text.encode())
        fence = got.block.split("suggestion")[0]
        assert fence not in got.text
    else:
        assert wanted == text or "end" in got.reason


@pytest.mark.parametrize(
    ("text", "anchor", "block"),
    [
        ("import a\n\ndef f():\n    pass\n", 3, "@b\ndef f():\n"),
        ("import a\nx = 1\ndef f():\n    pass\n", 2, "x = 1\n@b\n"),
        ("\n\ndef f():", 2, "\n@b\n"),  # the last line has no newline to replace
    ],
)
def test_an_inserted_line_hangs_on_a_line_that_says_something(text: str, anchor: int, block: str) -> None:
    at = Position(3, 0)
    lines = {("RIGHT", number): 0 for number in range(1, 5)}
    got = suggest([Edit(Span("t.py", at, at), "@b\n")], "t.py", text.encode(), lines)  # type: ignore[arg-type]
    assert isinstance(got, Suggestion)
    assert (got.start_line, got.line, got.text) == (anchor, anchor, block)


EDIT = [Edit(Span("t.py", Position(2, 1), Position(2, 1)), "X")]


@pytest.mark.parametrize(
    ("blob", "lines", "reason"),
    [
        (b"a\r\nbb\r\n", None, "CRLF"),
        (b"a\nb\xff\n", None, "UTF-8"),
        (b"a\nbb", None, "newline"),
        (b"a\nbb\n", {("RIGHT", 1): 0}, "diff"),
        (b"a\n", None, "outside"),
        ("a\nb\u202eb\n".encode(), None, "direction"),
    ],
)
def test_no_block_where_applying_could_do_something_else(
    blob: bytes, lines: dict[tuple[str, int], int] | None, reason: str
) -> None:
    where = whole("x\n" * 9) if lines is None else lines
    got = suggest(EDIT, "t.py", blob, where)  # type: ignore[arg-type]
    assert isinstance(got, NoSuggestion)
    assert reason in got.reason
