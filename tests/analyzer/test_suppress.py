"""Comments that hide findings, and those that only look like it."""

from __future__ import annotations

import pytest

from analyzer import catalogue
from analyzer.findings import Confidence, Evidence, Finding, Position, Severity, Span
from analyzer.suppress import apply, excuses


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
        ("x = 1  # preflight: ignore: see PF101\n", 1, ("comment", ": see PF101")),
        ("x = 1  # preflight: ignore (twice) for now\n", 1, ("comment", "(twice) for now")),
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
        ("x = 1  # preflight: ignore[PF101\n", 1),
        ("# preflight: ignore-file[PF101, PF102\nx = 1\n", 2),
        ("x = 1  # preflight: ignore(PF101)\n", 1),
        ("x = 1  # preflight: ignore: PF999 is no rule\n", 1),
        ("x = 1  # preflight: ignored so far\n", 1),
        ("# preflight: ignore-files\nx = 1\n", 2),
        ("x = (((\n# noqa\ny\n", 1),
    ],
)
def test_does_not_hide(source: str, line: int) -> None:
    finding = _finding(line)
    assert apply("a.py", source.encode(), [finding]) == ((finding,), ())


@pytest.mark.parametrize(
    ("source", "line", "idle"),
    [
        ("x = 1  # preflight: ignore[PF101]\n", 1, []),
        ("x = 1  # preflight: ignore[PF101, TG003, graph-retention]\n", 1, ["TG003"]),
        ("x = 1\ny = 2  # preflight: ignore[PF101] moved away\n", 1, ["PF101"]),
        ("x = 1\ny = 2  # preflight: ignore\n", 1, ["*"]),
        ("x = 1  # preflight: ignore[PF999] no such rule\n", 1, ["PF999"]),
        ("x = 1  # preflight: ignore[PF501] never counts\n", 1, ["PF501"]),
        ("# preflight: ignore-file[missing-zero-grad]\nx = 1\n", 2, ["missing-zero-grad"]),
        ("x = 1  # noqa: E501, PF101, PF102\n", 1, ["PF102"]),
        ("x = 1\ny = 2  # noqa\n", 1, []),
        ("x = 1  # preflight: ignore[PF101\n", 1, ["ignore: [PF101"]),
        ("x = 1  # preflight: ignore PF101 known\n", 1, ["ignore: PF101"]),
        ("x = '# preflight: ignore'\n", 1, []),
    ],
)
def test_what_hides_nothing_is_said(source: str, line: int, idle: list[str]) -> None:
    assert [item.rule for item in excuses("a.py", source.encode(), [_finding(line)], None)[0]] == idle


def test_a_comment_about_a_rule_that_did_not_run_may_have_its_use() -> None:
    source = b"x = 1  # preflight: ignore[PF201]  # preflight: ignore[PF101]\n"
    ran = [rule for rule in catalogue.rules() if rule.code == "PF101"]
    assert [item.rule for item in excuses("a.py", source, [], ran)[0]] == ["PF101"]


def test_names_of_rules_hide_as_well() -> None:
    kept, hidden = apply("a.py", b"x = 1  # preflight: ignore[graph-retention] small\n", [_finding(1)])
    assert (kept, [item.reason for item in hidden]) == ((), ["small"])


def test_the_memory_gate_ignores_comments() -> None:
    finding = _finding(1, "PF501")
    assert apply("a.py", b"# preflight: ignore-file\nx = 1  # noqa\n", [finding]) == ((finding,), ())
