"""Comments that hide findings, and those that only look like it."""

from __future__ import annotations

import pytest

from analyzer.findings import Confidence, Evidence, Finding, Position, Severity, Span
from analyzer.suppress import apply


def _finding(line: int, rule: str = "PF101") -> Finding:
    return Finding(
        rule=rule,
        name="n",
        span=Span("a.py", Position(line, 0), Position(line, 1)),
        severity=Severity.ERROR,
        confidence=Confidence.CERTAIN,
        message="m",
        evidence=(Evidence("a.py", line, 0, "here"),),
    )


@pytest.mark.parametrize(
    ("source", "line", "expected"),
    [
        ("x = 1  # preflight: ignore[PF101] freed below\n", 1, ("comment", "freed below")),
        ("x = 1  # preflight: ignore[pf204, TG001]\n", 1, ("comment", "")),
        ("x = 1  # preflight: ignore\n", 1, ("comment", "")),
        ("x = 1  # noqa\n", 1, ("noqa", "")),
        ("x = 1  # noqa: E501, PF101 known\n", 1, ("noqa", "known")),
        ("# preflight: ignore[PF101] above\nx = 1\n", 2, ("comment", "above")),
        ("x = (1,\n  2,\n)  # noqa: PF101\n", 2, ("noqa", "")),
        ("\n\nx = 1\n# preflight: ignore-file[PF101] generated\n", 3, ("file", "generated")),
        ("if a:\n    # preflight: ignore\n    x = 1\n", 3, ("comment", "")),
        ("x = 1  # noqa: PF101\ny = (((\n", 1, ("noqa", "")),
    ],
)
def test_hides(source: str, line: int, expected: tuple[str, str]) -> None:
    kept, hidden = apply("a.py", source.encode(), [_finding(line)])
    assert kept == ()
    assert [(item.source, item.reason, item.line) for item in hidden] == [(*expected, line)]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1  # preflight: ignore[PF204]\n", 1),
        ("x = 1  # noqa: E501\n", 1),
        ("x = '# noqa'\n", 1),
        ('x = """\n# preflight: ignore-file\n"""\n', 1),
        ("x = 1  # noqa\ny = 2\n", 2),
        ("# preflight: ignore\n\nx = 1\n", 3),
        ("x = 1  # preflight: ignore[]\n", 1),
        ("x = (((\n# noqa\ny\n", 1),
    ],
)
def test_does_not_hide(source: str, line: int) -> None:
    finding = _finding(line)
    assert apply("a.py", source.encode(), [finding]) == ((finding,), ())


def test_the_memory_gate_ignores_comments() -> None:
    finding = _finding(1, "PF501")
    assert apply("a.py", b"# preflight: ignore-file\nx = 1  # noqa\n", [finding]) == ((finding,), ())
