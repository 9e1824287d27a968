"""The base branch's configuration: what is wrong is named by line, and takes nothing else with it."""

from __future__ import annotations

import pytest

from analyzer.findings import Confidence, Severity
from bot.core.config import Config, find, load

GOOD = """\
mode: {code: block, memory: warn}
rules:
  ignore: [eval-without-no-grad, TG005]
  severity: {PF101: warning}
min_confidence: certain
comments:
  max_inline: 3
targets:
  gpu-long: H100-80GB
launch: jobs/*.slurm
"""
TOML = '[tool.preflight]\nmin_confidence = "certain"\n[tool.preflight.mode]\ncode = "block"\nmemorry = "warn"\n'


def test_every_setting_is_read() -> None:
    config, problems = load(GOOD, "x.yml")
    expected = Config(
        code="block",
        memory="warn",
        ignore=frozenset({"PF102", "PF204"}),
        severities={"PF101": Severity.WARNING},
        min_confidence=Confidence.CERTAIN,
        max_inline=3,
        targets={"gpu-long": "H100-80GB"},
        launch=("jobs/*.slurm",),
    )
    assert (expected, ()) == (config, problems)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("mode:\n  cod: block\n", 2, "did you mean 'code'"),
        ("mode:\n  code: loud\n", 2, "advisory holds"),
        ("\nmin_confidence: 3\n", 2, "not one of"),
        ("comments: {max_inline: 999}\n", 1, "from 0 to 30"),
        ("mode: block\n", 1, "a section"),
        ("rules:\n  severity: {PF101: awful}\n", 2, "no severity"),
        ("rules:\n  select: [PF1O1]\n", 2, "no rule 'PF1O1'"),
        ("rules:\n  severity: {PF999: note}\n", 2, "no rule 'PF999'"),
        ("mode: {}\nmode: {}\n", 2, "given twice"),
        ("a: &x [1]\nb: *x\n", 2, "aliases"),
        ("[" * 3000, 1, "deeply"),
        ("a: [\n", 2, ""),
        ("- a\n", 1, "names"),
        ("x" * 70_000, 0, "longer"),
        ("!!python/object/apply:os.system [ls]\n", 1, "names"),
    ],
)
def test_a_problem_has_a_line_and_the_defaults_hold(text: str, line: int, words: str) -> None:
    config, problems = load(text, "x.yml")
    assert config == Config()
    assert problems[0].line == line
    assert words in problems[0].message


def test_one_bad_setting_leaves_the_others() -> None:
    config, problems = load(GOOD + "lunch: x\n", "x.yml")
    assert config.max_inline == 3
    assert [problem.message for problem in problems] == ["lunch: unknown setting; did you mean 'launch'?"]


def test_toml_holds_the_same_settings() -> None:
    config, problems = load(TOML, "pyproject.toml")
    assert (config.code, config.min_confidence) == ("block", Confidence.CERTAIN)
    assert [(p.line, p.message) for p in problems] == [(5, "mode.memorry: unknown setting; did you mean 'memory'?")]


def test_the_first_file_that_speaks_of_us_is_read() -> None:
    assert find({"pyproject.toml": TOML.encode()}.get)[0].code == "block"
    assert find({"pyproject.toml": b"[tool.x]\n"}.get) == (Config(), ())
