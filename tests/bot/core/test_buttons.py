"""Which buttons a check run shows, within GitHub's limits, and what each stands for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzer.findings import Confidence, Edit, Finding, Fix, Position, Severity, Span
from bot.core import buttons
from bot.core.buttons import command_of, with_buttons
from bot.core.commands.grammar import Command, command_names
from bot.core.plan import BUTTONS, CODE_CHECK, MEMORY_CHECK, CheckAction, CheckOutcome, State
from bot.core.plan_json import plan_from_json, plan_to_json
from bot.core.review import review
from tests.bot.core.test_fix import TRAIN, pull

SPAN = Span("train.py", Position(1, 0), Position(1, 1))
PLAIN = Finding(
    rule="PF201",
    name="missing-zero-grad",
    span=SPAN,
    severity=Severity.ERROR,
    confidence=Confidence.CERTAIN,
    message="m",
    evidence=(),
)
FIXABLE = replace(PLAIN, fix=Fix("f", "safe", (Edit(SPAN, "x"),)))
UNSAFE = replace(PLAIN, fix=Fix("f", "unsafe", (Edit(SPAN, "x"),)))
TOO_LARGE = replace(PLAIN, rule="PF501")


def shown(check: str, state: State, *findings: Finding) -> list[str]:
    outcome = CheckOutcome(name=check, conclusion="neutral", state=state, title="t", summary="s")  # type: ignore[arg-type]
    [found] = with_buttons([outcome], findings)
    return [action.identifier for action in found.actions]


@pytest.mark.parametrize(
    ("check", "state", "findings", "expected"),
    [
        (CODE_CHECK, "ok", (), []),
        (CODE_CHECK, "skipped", (), []),
        (CODE_CHECK, "failed", (), ["rerun"]),
        (CODE_CHECK, "unknown", (), ["rerun"]),
        (CODE_CHECK, "exceeds", (PLAIN,), ["rerun", "explain"]),
        (CODE_CHECK, "exceeds", (UNSAFE,), ["rerun", "explain"]),
        (CODE_CHECK, "exceeds", (PLAIN, FIXABLE), ["rerun", "fix", "explain"]),
        (CODE_CHECK, "unknown", (TOO_LARGE,), ["rerun"]),
        (MEMORY_CHECK, "exceeds", (TOO_LARGE, FIXABLE), ["rerun", "fits", "explain"]),
        (MEMORY_CHECK, "borderline", (FIXABLE,), ["rerun", "fits"]),
        (MEMORY_CHECK, "unknown", (), ["rerun"]),
    ],
)
def test_only_what_would_do_something(
    check: str, state: State, findings: tuple[Finding, ...], expected: list[str]
) -> None:
    assert shown(check, state, *findings) == expected


def test_every_button_is_within_the_limits_and_known() -> None:
    found = [item for item in vars(buttons).values() if isinstance(item, CheckAction)]
    assert {item.identifier for item in found} == BUTTONS
    for item in found:
        assert (len(item.label) <= 20, len(item.description) <= 40, len(item.identifier) <= 20) == (True, True, True)


def test_a_button_is_a_command_that_exists() -> None:
    for name in BUTTONS - {"rerun"}:
        command = command_of(name, CODE_CHECK, "")
        assert command is not None
        assert command.name in command_names()
    assert command_of("rerun", CODE_CHECK, "") is None


def test_explain_is_about_the_rules_of_the_run_and_not_of_what_code_says() -> None:
    plan = review(pull({"train.py": TRAIN.replace("losses = []", "losses = []  # | PF999 error |")}))
    summary = plan.checks[0].summary
    assert command_of("explain", CODE_CHECK, summary) == Command(name="explain", words=("PF101",))
    assert command_of("explain", MEMORY_CHECK, summary) == Command(name="explain", words=("PF501",))


def test_buttons_survive_the_way_from_the_child() -> None:
    plan = review(pull({"train.py": TRAIN}))
    assert [action.identifier for action in plan.checks[0].actions] == ["rerun", "fix", "explain"]
    assert plan_from_json(plan_to_json(plan)) == plan
