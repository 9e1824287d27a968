"""What the demonstration prints of a comment reads as a browser shows it."""

from __future__ import annotations

import pytest

from bot.demo import show
from bot.render.markdown import escape


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        (escape("micro_batch 4 -> 8 of $MODEL in {a} & b!"), "micro_batch 4 -> 8 of $MODEL in {a} & b!"),
        (escape("issue #12 by @dana, 10 < 20"), "issue #12 by @dana, 10 < 20"),
        ("`a\\$b &gt; c` and \\$d &gt; e", "`a\\$b &gt; c` and $d > e"),  # code is shown as it stands
        ("```python\nx = '\\$ &gt;'\n```", "```python\nx = '\\$ &gt;'\n```"),
        ("| `a \\| b` | c \\| d |", "| `a | b` | c | d |"),
    ],
)
def test_escapes_are_not_printed(markdown: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    show.markdown(markdown, indent="")
    assert capsys.readouterr().out == shown + "\n"
