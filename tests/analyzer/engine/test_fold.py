"""Texts that are put together from known values, and what a hostile file writes there."""

from __future__ import annotations

import pytest

from analyzer.engine import fold


@pytest.mark.parametrize(
    ("template", "args", "expected"),
    [("a{}", (1,), "a1"), ("{0}_{1}", ("x", 2), "x_2"), ("{:03d}", (7,), "007"), ("plain", (), "plain")],
)
def test_texts_are_put_together(template: str, args: tuple[object, ...], expected: str) -> None:
    assert fold.formatted(template, args, {}) == expected
    assert fold.method(template, "format", args) == expected


@pytest.mark.parametrize(
    ("template", "args"),
    [
        ("{:999999999d}", (1,)), ("{0.__class__}", (1,)), ("{0[0]}", ("a",)), ("{!r}", ("a",)), ("{{}}", ()),
        ("{}", ([1],)), ("{:{}}", (1, 10**9)), ("{}", ()),
    ],
)  # fmt: skip
def test_a_template_reaches_into_nothing_and_stays_small(template: str, args: tuple[object, ...]) -> None:
    with pytest.raises(fold.NotConstant):
        fold.formatted(template, args, {})


@pytest.mark.parametrize(("left", "right"), [("l_%d", 3), ("%s-%02d", ("a", 3))])
def test_percent_fills_in_plain_values(left: str, right: object) -> None:
    assert fold.binary("%", left, right) == {"l_%d": "l_3", "%s-%02d": "a-03"}[left]


@pytest.mark.parametrize(
    ("left", "right"), [("%999999999d", 1), ("%*d", (9**9, 1)), ("%r", "a"), ("%s", [1]), ("%", 1)]
)
def test_percent_with_anything_else_is_no_constant(left: str, right: object) -> None:
    with pytest.raises(fold.NotConstant):
        fold.binary("%", left, right)
