"""A plan at a terminal."""

from __future__ import annotations

import pytest

from bot.core.plan import Plan, ReviewComment
from bot.render.plan_text import terminal


def shown(body: str) -> str:
    comment = ReviewComment(path="train.py", line=3, start_line=None, body=body, fingerprint="0" * 16)
    return terminal(Plan(head_sha="0" * 40, checks=(), comments=(comment,))).split(":\n", 1)[1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("**PF101** keeps `x ** 2` and ``a ` **b**``", "  PF101 keeps `x ** 2` and ``a ` **b**``"),
        ("<sub>a &lt; b, \\*not\\* bold, \\`odd</sub> **x**", "  a < b, *not* bold, `odd x"),
        (
            "**Fix**\n\n```suggestion\ny = x ** 2  # &lt; **\n```",
            "  Fix\n  \n  ```suggestion\n  y = x ** 2  # &lt; **\n  ```",
        ),
    ],
)
def test_marks_go_and_code_stays(body: str, expected: str) -> None:
    assert shown(body) == expected
