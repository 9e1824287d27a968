"""The base branch's configuration: what is wrong is named by line, and takes nothing else with it."""

from __future__ import annotations

import pytest

from analyzer.findings import Confidence, Severity
from bot.core.config import OWNER_PATHS, Config, PathRule, find, load

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


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "[{a = [0b" + "1" * 20_000 + "]}]"])
def test_a_number_that_python_cannot_read_or_print_breaks_nothing(number: str) -> None:
    config, problems = load(f"[tool.preflight]\nmin_confidence = {number}\n", "pyproject.toml")
    assert config == Config()
    assert "; the defaults hold" in problems[0].message


def test_long_words_of_toml_are_no_numbers() -> None:
    text = f'[tool.other]\nhash = "0x{"f" * 5000}"\n{TOML}'
    assert load(text, "pyproject.toml")[0].code == "block"


def test_the_first_file_that_speaks_of_us_is_read() -> None:
    assert find({"pyproject.toml": TOML.encode()}.get)[0].code == "block"
    assert find({"pyproject.toml": b"[tool.x]\n"}.get) == (Config(), ())


PATHS = """\
mode: {code: warn}
rules: {severity: {PF101: warning}}
exclude: [third_party/]
default_targets: [A100-40GB, H100-80GB]
paths:
  - match: research/**
    mode: {code: advisory, memory: warn}
    rules: {ignore: [PF402], severity: {PF101: note}}
  - match: [research/prod/**, "*.slurm"]
    mode: {code: block}
    rules: {ignore: []}
"""


def test_paths_say_what_holds_where_and_the_last_match_wins() -> None:
    config, problems = load(PATHS, "x.yml")
    assert problems == ()
    assert [config.mode("code", path) for path in ("a.py", "research/a.py", "research/prod/a.py")] == [
        "warn",
        "advisory",
        "block",
    ]
    assert config.mode("memory", "research/prod/a.slurm") == "warn", "an entry that says nothing leaves the one before"
    assert (config.ignores("PF402", "research/a.py"), config.ignores("PF402", "research/prod/a.py")) == (True, False)
    assert config.ignores("PF101", "third_party/x/a.py")
    assert config.severity("PF101", "research/prod/a.py") is Severity.NOTE
    assert config.severity("PF101", "a.py") is Severity.WARNING
    assert config.severity("PF402", "a.py") is None
    assert config.strictest("code", ["a.py", "research/prod/a.py"]) == "block"
    assert config.strictest("code", []) == "warn"
    assert config.targets == {"": "A100-40GB,H100-80GB"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("paths: research\n", 1, "a list of sections"),
        ("paths:\n  - mode: {code: block}\n", 2, "needs globs"),
        ("paths:\n  - match: a\n    mode: {cod: block}\n", 3, "did you mean 'code'"),
        ("paths:\n  - match: a\n    rules: {ignore: [PF1O1]}\n", 3, "no rule 'PF1O1'"),
        ("paths:\n  - math: a\n", 2, "did you mean 'match'"),
        ("paths:\n  - match: '!a'\n", 2, "do not begin with !"),
        ("exclude: ['', a]\n", 1, "others are left out"),
    ],
)
def test_a_problem_below_paths_has_its_line(text: str, line: int, words: str) -> None:
    _, problems = load(text, "x.yml")
    assert (problems[0].line, words in problems[0].message) == (line, True), problems


def test_a_mode_that_is_none_never_weakens_a_path() -> None:
    config, problems = load("mode: {code: block}\npaths:\n  - {match: a, mode: {code: blokc}}\n", "x.yml")
    assert config.mode("code", "a/b.py") == "block"
    assert "block holds" in problems[0].message


def test_the_repository_wins_over_its_owner() -> None:
    owner = """\
mode: {code: block, memory: warn}
rules: {ignore: [PF402], severity: {PF101: note, PF102: note}}
targets: {long: A100-40GB, short: T4}
default_targets: [H100-80GB]
paths: [{match: "*.py", mode: {code: advisory}}]
"""
    defaults, _ = find({"preflight.yml": owner.encode()}.get, places=OWNER_PATHS)
    own = """\
mode: {memory: block}
rules: {severity: {PF102: error}}
targets: {short: L4}
paths: [{match: a.py, mode: {code: warn}}]
"""
    config, problems = load(own, "x.yml", defaults)
    assert problems == ()
    assert (config.code, config.memory, config.ignore) == ("block", "block", frozenset({"PF402"}))
    assert config.severities == {"PF101": Severity.NOTE, "PF102": Severity.ERROR}
    assert config.targets == {"long": "A100-40GB", "short": "L4", "": "H100-80GB"}
    assert [config.mode("code", path) for path in ("a.py", "b.py", "c.sh")] == ["warn", "advisory", "block"]
    assert config.paths == (
        PathRule(match=("*.py",), code="advisory"),
        PathRule(match=("a.py",), code="warn"),
    )
    assert load("rules: {ignore: []}\n", "x.yml", defaults)[0].ignore == frozenset(), "an empty list is a choice"


def test_unreadable_text_leaves_the_owners_defaults() -> None:
    defaults = Config(code="block")
    assert load("a: [\n", "x.yml", defaults)[0] == defaults


def test_toml_lines_are_those_of_the_right_table() -> None:
    text = """\
[tool.other]
code = "x"
[tool.preflight]
# code is advisory by default
min_confidence = "likely"
[[tool.preflight.paths]]
match = ["a/**"]
mode = { code = "loud" }
[tool.preflight.mode]
code = "shout"
"""
    _, problems = load(text, "pyproject.toml")
    assert [(item.line, item.message.partition(":")[0]) for item in problems] == [
        (8, "paths.mode.code"),
        (10, "mode.code"),
    ]


@pytest.mark.parametrize(
    ("path", "raw", "line", "byte"),
    [
        ("pyproject.toml", '[project]\nauthors = "Ren\xe9"\n[tool.preflight]\n'.encode("latin-1"), 2, "0xe9"),
        ("pyproject.toml", "[tool.preflight]\n".encode("utf-16"), 1, "0xff"),
        (".github/preflight.yml", "exclude: donn\xe9es/**\n".encode("latin-1"), 1, "0xe9"),
    ],
)
def test_a_configuration_that_is_not_utf_8_is_told(path: str, raw: bytes, line: int, byte: str) -> None:
    config, problems = find({path: raw}.get)
    assert (config, [str(problem) for problem in problems]) == (
        Config(), [f"{path}:{line}: byte {byte} is not UTF-8; the defaults hold"]
    )  # fmt: skip


def test_a_project_file_that_does_not_speak_of_preflight_is_nobodys_matter() -> None:
    assert find({"pyproject.toml": "[project]\nauthors = 'Ren\xe9'\n".encode("latin-1")}.get) == (Config(), ())
