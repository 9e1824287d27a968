"""Text of strangers stays text, and every text fits."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.render import limits
from bot.render.markdown import cell, code, escape, prose, table

HOSTILE = st.text(alphabet="`@#<>|\\*_[]()!~ $ax/:.\n\u202e\u200b-", max_size=40)


@given(st.text(alphabet="ab`~é\U0001f600\n <details>/", max_size=300), st.integers(60, 200))
def test_a_cut_text_fits_and_says_so(text: str, limit: int) -> None:
    got = limits.cut(text, limit)
    assert len(got.encode()) <= limit
    if len(text.encode()) <= limit:
        assert got == text
    else:
        assert "… cut:" in got


def test_a_cut_closes_fences_and_folds() -> None:
    text = "<details><summary>x</summary>\n\n````python\n" + "x = 1\n" * 20_000
    got = limits.check_text(text)
    assert len(got.encode()) <= 65_535
    assert re.search(r"\n````\n\n</details>\n\n… cut: [\d,]+ of [\d,]+ bytes more\n$", got)


def test_titles_are_one_line() -> None:
    assert limits.title("a\nb" + "c" * 300) == "a b" + "c" * 251 + "…"


@given(HOSTILE)
def test_a_code_span_is_one_code_span(text: str) -> None:
    children = MarkdownIt("commonmark").parseInline(f"x {code(text)} y")[0].children or []
    assert [child.type for child in children] == ["text", "code_inline", "text"]


@given(HOSTILE)
def test_escaped_text_is_only_text(text: str) -> None:
    children = MarkdownIt("commonmark").enable("strikethrough").parseInline(f"x {escape(text)} y")[0].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    assert not re.search(r"@\w|#\w|://", escape(text).replace("&#", ""))
    assert "\u202e" not in escape(text)


@given(HOSTILE)
def test_a_table_keeps_its_columns(text: str) -> None:
    rendered = MarkdownIt("commonmark").enable("table").render(table(("a", "b"), [(code(text), escape(text))]))
    assert rendered.count("<td>") == 2
    assert "<img" not in rendered


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`x` keeps <b>", "`x` keeps &lt;b&gt;"),
        ("odd ` tick", "odd \\` tick"),
        ("`a` and `b`", "`a` and `b`"),
        ("mail @ann", "mail @\u200bann"),
    ],
)
def test_prose_quotes_code(text: str, expected: str) -> None:
    assert expected == prose(text)


def test_a_bar_in_a_cell_is_data() -> None:
    assert cell("a|b \\| \\\\|") == "a\\|b \\| \\\\\\|"
