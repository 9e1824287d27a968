"""The project's configuration: text of the *base* branch -> `Config`, and what is wrong with it, by line.

A broken part is reported and its default holds: a typo in one setting takes away neither the others nor the review.
What a setting may be is also in `bot.core.config_schema`; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from analyzer.findings import Confidence, Severity
from bot import catalogue
from bot.core.config_text import Problem, Section, Value, parse
from bot.core.globs import MAX_PATTERN, matches
from bot.errors import InputError

Mode = Literal["advisory", "warn", "block"]
OnFailure = Literal["neutral", "failure"]
MODES: tuple[Mode, ...] = get_args(Mode)
ON_FAILURE: tuple[OnFailure, ...] = get_args(OnFailure)

CONFIG_PATHS = (".github/preflight.yml", ".github/preflight.yaml", "pyproject.toml")
"""Where the configuration is looked for, in this order; of ``pyproject.toml`` only ``[tool.preflight]``."""
OWNER_PATHS = (".github/preflight.yml", ".github/preflight.yaml", "preflight.yml", "preflight.yaml")
"""The same, in the owner's ``.github`` repository, for the defaults of all of its repositories."""

MAX_INLINE = 30  # more comments in one request meet GitHub's abuse limit
MAX_PATH_RULES = 50
UNNAMED_TARGET = ""
"""The key of `Config.targets` under which `default_targets` stand (`estimator.launch.defaults`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule:
    """What holds for some paths in place of the general setting; None: it says nothing about that."""

    match: tuple[str, ...]
    code: Mode | None = None
    memory: Mode | None = None
    ignore: frozenset[str] | None = None
    severities: Mapping[str, Severity] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the base branch asks for.

    `code` and `memory` say what a bad result does to the check: ``advisory`` and ``warn`` never block; ask `mode`,
    which knows `paths` too. `targets` maps a partition, constraint, pool or runner label to a GPU or instance, ``*``
    everything unmapped, and `UNNAMED_TARGET` what names nothing: `default_targets`. `launch` are globs of launch
    configs to look at (empty: all that are recognised), `exclude` globs of files that are not reviewed. `baseline` is
    the path of a baseline file in the repository. Findings below `min_inline` never become comments on lines.
    """

    code: Mode = "advisory"
    memory: Mode = "block"
    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    min_confidence: Confidence = Confidence.LIKELY
    max_inline: int = 10
    min_inline: Severity = Severity.WARNING
    targets: Mapping[str, str] = field(default_factory=dict)
    default_targets: tuple[str, ...] = ()
    launch: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    paths: tuple[PathRule, ...] = ()
    on_failure: OnFailure = "neutral"
    baseline: str = ""

    def mode(self, check: Literal["code", "memory"], path: str) -> Mode:
        """What a bad result at `path` does to the check: the last entry of `paths` that matches and says so."""
        general = self.code if check == "code" else self.memory
        said = (rule.code if check == "code" else rule.memory for rule in self._about(path))
        return next((mode for mode in said if mode is not None), general)

    def strictest(self, check: Literal["code", "memory"], paths: Iterable[str]) -> Mode:
        """The mode of the whole check, given the paths of what is bad; the general one where nothing is."""
        modes = {self.mode(check, path) for path in paths}
        general = self.code if check == "code" else self.memory
        return next((mode for mode in reversed(MODES) if mode in modes), general)

    def ignores(self, rule: str, path: str) -> bool:
        """Whether findings of the rule at `path` are left out. `select` and `ignore` hold everywhere."""
        if rule in self.ignore or matches(path, self.exclude):
            return True
        said = (item.ignore for item in self._about(path))
        return rule in next((codes for codes in said if codes is not None), frozenset())

    def severity(self, rule: str, path: str) -> Severity | None:
        """The severity that the configuration gives the rule at `path`."""
        said = (item.severities.get(rule) for item in self._about(path) if item.severities is not None)
        return next((severity for severity in said if severity is not None), self.severities.get(rule))

    def reviews(self, path: str) -> bool:
        """Whether the file is looked at at all."""
        return not matches(path, self.exclude)

    def looks_at_launch(self, path: str) -> bool:
        """Whether `path` is a launch config to look at."""
        return self.reviews(path) and (not self.launch or matches(path, self.launch))

    def _about(self, path: str) -> tuple[PathRule, ...]:
        """The entries of `paths` that match, the last one first."""
        return tuple(rule for rule in reversed(self.paths) if matches(path, rule.match))


def load(text: str | None, path: str, defaults: Config | None = None) -> tuple[Config, tuple[Problem, ...]]:
    """The configuration in `text` (None: no file) over `defaults`, and its problems. Never raises for the text."""
    plain = defaults or Config()
    if text is None:
        return plain, ()
    problems: list[Problem] = []
    root = parse(text, path, problems)
    config = _config(root, plain) if root is not None else plain
    return config, tuple(sorted(problems, key=lambda problem: problem.line))


def load_bytes(raw: bytes, path: str, defaults: Config | None = None) -> tuple[Config, tuple[Problem, ...]]:
    """`load` of a file. What is not UTF-8 is a problem: a setting of guessed letters would mean nothing, in silence."""
    try:
        return load(raw.decode(), path, defaults)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = Problem(path, line, f"byte 0x{raw[error.start]:02x} is not UTF-8; the defaults hold")
        return defaults or Config(), (problem,)


def find(
    read: Callable[[str], bytes | None], defaults: Config | None = None, places: Iterable[str] = CONFIG_PATHS
) -> tuple[Config, tuple[Problem, ...]]:
    """The configuration of a tree: the first of `places` that exists and speaks of Preflight."""
    for path in places:
        raw = read(path)
        if raw is None or (path.endswith(".toml") and b"preflight" not in raw.replace(b"\0", b"")):
            continue
        return load_bytes(raw, path, defaults)
    return defaults or Config(), ()


def _config(root: Section, plain: Config) -> Config:
    mode, rules, comments = root.section("mode"), root.section("rules"), root.section("comments")
    default_targets = root.texts("default_targets", plain.default_targets)
    targets = {**plain.targets, **root.section("targets").all_texts()}
    if default_targets:
        targets[UNNAMED_TARGET] = ",".join(default_targets)
    code, memory = mode.choice("code", MODES, plain.code), mode.choice("memory", MODES, plain.memory)
    config = Config(
        code=code,
        memory=memory,
        select=_codes(rules, "select") if rules.has("select") else plain.select,
        ignore=_codes(rules, "ignore") if rules.has("ignore") else plain.ignore,
        severities={**plain.severities, **_severities(rules.section("severity"))},
        min_confidence=Confidence(
            root.choice("min_confidence", tuple(item.value for item in Confidence), plain.min_confidence.value)
        ),
        max_inline=comments.number("max_inline", plain.max_inline, 0, MAX_INLINE),
        min_inline=Severity(
            comments.choice("min_severity", tuple(item.value for item in Severity), plain.min_inline.value)
        ),
        targets=targets,
        default_targets=default_targets,
        launch=_globs(root, "launch", plain.launch),
        exclude=_globs(root, "exclude", plain.exclude),
        paths=(*plain.paths, *_path_rules(root, code, memory)),
        baseline=root.file("baseline", plain.baseline),
        on_failure=root.choice("on_failure", ON_FAILURE, plain.on_failure),
    )
    for section in (mode, rules, comments, root):
        section.report_unknown()
    return config


def _path_rules(root: Section, code: Mode, memory: Mode) -> tuple[PathRule, ...]:
    """The entries of `paths`; one without a glob matches nothing and is a problem. A mode that is none is the general
    one, never a weaker one."""
    found = []
    for item in root.sections("paths", MAX_PATH_RULES):
        mode, rules = item.section("mode"), item.section("rules")
        rule = PathRule(
            match=_globs(item, "match", ()),
            code=mode.choice("code", MODES, code) if mode.has("code") else None,
            memory=mode.choice("memory", MODES, memory) if mode.has("memory") else None,
            ignore=_codes(rules, "ignore") if rules.has("ignore") else None,
            severities=_severities(rules.section("severity")) if rules.has("severity") else None,
        )
        for section in (mode, rules, item):
            section.report_unknown()
        if rule.match:
            found.append(rule)
        elif not item.has("match"):
            item.problems.append(Problem(item.path, item.line, "paths.match: an entry needs globs; it is left out"))
    return tuple(found)


def _globs(section: Section, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    given = section.texts(key, default)
    good = tuple(glob for glob in given if 0 < len(glob) <= MAX_PATTERN and not glob.startswith("!"))
    if len(good) < len(given):
        section.complain(
            key, f"globs are 1 to {MAX_PATTERN} characters long and do not begin with !; others are left out"
        )
    return good


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
