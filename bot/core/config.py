"""The project's configuration: text of the *base* branch -> `Config`, and what is wrong with it, by line.

A broken part is reported and its default holds: a typo in one setting takes away neither the others nor the review.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from analyzer.findings import Confidence, Severity
from bot import catalogue
from bot.core.config_text import Problem, Section, Value, parse
from bot.errors import InputError

Mode = Literal["advisory", "warn", "block"]

CONFIG_PATHS = (".github/preflight.yml", ".github/preflight.yaml", "pyproject.toml")
"""Where the configuration is looked for, in this order; of ``pyproject.toml`` only ``[tool.preflight]``."""

MAX_INLINE = 30  # more comments in one request meet GitHub's abuse limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the base branch asks for.

    `code` and `memory` say what a bad result does to the check: ``advisory`` and ``warn`` never block. `targets` maps a
    partition, pool or runner label to a GPU or instance; `default_targets` stand in where a launch config names none.
    `launch` are globs of launch configs to look at (empty: all that are recognised). `baseline` is the path of a
    baseline file in the repository.
    """

    code: Mode = "advisory"
    memory: Mode = "block"
    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    min_confidence: Confidence = Confidence.LIKELY
    max_inline: int = 10
    targets: Mapping[str, str] = field(default_factory=dict)
    default_targets: tuple[str, ...] = ()
    launch: tuple[str, ...] = ()
    on_failure: Literal["neutral", "failure"] = "neutral"
    baseline: str = ""


def load(text: str | None, path: str) -> tuple[Config, tuple[Problem, ...]]:
    """The configuration in `text` (None: no file) and its problems. Never raises for what the text holds."""
    if text is None:
        return Config(), ()
    problems: list[Problem] = []
    root = parse(text, path, problems)
    config = _config(root) if root is not None else Config()
    return config, tuple(sorted(problems, key=lambda problem: problem.line))


def find(read: Callable[[str], bytes | None]) -> tuple[Config, tuple[Problem, ...]]:
    """The configuration of a tree: the first of `CONFIG_PATHS` that exists and speaks of Preflight."""
    for path in CONFIG_PATHS:
        raw = read(path)
        if raw is None or (path.endswith(".toml") and b"preflight" not in raw):
            continue
        return load(raw.decode(errors="replace"), path)
    return Config(), ()


def _config(root: Section) -> Config:
    plain = Config()
    mode, rules, comments = root.section("mode"), root.section("rules"), root.section("comments")
    config = Config(
        code=mode.choice("code", ("advisory", "warn", "block"), plain.code),
        memory=mode.choice("memory", ("advisory", "warn", "block"), plain.memory),
        select=_codes(rules, "select"),
        ignore=_codes(rules, "ignore"),
        severities=_severities(rules.section("severity")),
        min_confidence=Confidence(
            root.choice("min_confidence", tuple(item.value for item in Confidence), plain.min_confidence.value)
        ),
        max_inline=comments.number("max_inline", plain.max_inline, 0, MAX_INLINE),
        targets=root.section("targets").all_texts(),
        default_targets=root.texts("default_targets"),
        launch=root.texts("launch"),
        baseline=root.file("baseline"),
        on_failure=root.choice("on_failure", ("neutral", "failure"), plain.on_failure),
    )
    for section in (mode, rules, comments, root):
        section.report_unknown()
    return config


def _codes(section: Section, key: str) -> frozenset[str]:
    """The codes that codes, names and aliases mean. A misspelt one is a problem and does not hold."""
    found: frozenset[str] = frozenset()
    for word in section.texts(key):
        try:
            found |= catalogue.codes([word])
        except InputError as error:
            section.complain(key, str(error))
    return found


def _severities(section: Section) -> Mapping[str, Severity]:
    allowed: Mapping[Value, Severity] = {item.value: item for item in Severity}
    found: dict[str, Severity] = {}
    for code, text in section.all_texts().items():
        if text not in allowed:
            section.complain(code, f"{text!r} is no severity: error, warning or note")
            continue
        try:
            found[catalogue.find(code).code] = allowed[text]
        except InputError as error:
            section.complain(code, str(error))
    return found
