"""Configuration text as sections that know their lines: YAML nodes or the ``[tool.preflight]`` table of TOML.

Hostile text stays harmless: a size limit, no aliases (a few lines of them unfold to gigabytes), a depth limit, and no
object is ever built from a tag.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import yaml

from analyzer.toml import TomlError, parse_toml

MAX_CHARACTERS = 65_536
MAX_DEPTH = 8
Value = object
Choice = TypeVar("Choice", bound=str)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a configuration. `line` is 1-based, 0 where there is none to name."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


@dataclass(slots=True)
class Section:
    """One mapping of the text. Reading a key marks it as known; what is wrong goes to `problems`."""

    path: str
    values: Mapping[str, Value]
    lines: Mapping[str, int]
    problems: list[Problem]
    prefix: str = ""
    asked: set[str] = field(default_factory=set)

    def complain(self, key: str, message: str) -> None:
        """Report a problem with the value of `key`."""
        self.problems.append(Problem(self.path, self.lines.get(key, 0), f"{self.prefix}{key}: {message}"))

    def _get(self, key: str) -> Value:
        self.asked.add(key)
        return self.values.get(key)

    def section(self, key: str) -> Section:
        """The section at `key`; an empty one where it is missing or something else."""
        value = self._get(key)
        if isinstance(value, Section):
            return value
        if value is not None:
            self.complain(key, "a section with keys is wanted here; the defaults hold")
        return Section(self.path, {}, {}, self.problems, f"{self.prefix}{key}.")

    def choice(self, key: str, allowed: Sequence[Choice], default: Choice) -> Choice:
        """One of `allowed`; the default, with a problem, for anything else."""
        value = self._get(key)
        if value is None:
            return default
        if value in allowed:
            return cast(Choice, value)
        self.complain(key, f"{_shown(value)} is not one of {', '.join(allowed)}; {default} holds")
        return default

    def number(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number from `least` to `most`; the default, with a problem, for anything else."""
        value = self._get(key)
        if value is None:
            return default
        if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value) and least <= int(value) <= most:
            return int(value)
        self.complain(key, f"{_shown(value)} is not a whole number from {least} to {most}; {default} holds")
        return default

    def file(self, key: str, default: str = "") -> str:
        """The path of a file inside the repository; the default, with a problem, for anything else."""
        value = self._get(key)
        if value is None:
            return default
        if isinstance(value, str) and not value.startswith("/") and ".." not in value.split("/") and "\0" not in value:
            return value
        self.complain(key, "a path inside the repository is wanted here; it is left out")
        return default

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of words (one word alone counts as a list of one)."""
        value = self._get(key)
        items = value if isinstance(value, list) else [value]
        if value is None:
            return default
        if all(isinstance(item, str) for item in items):
            return tuple(cast("list[str]", items))
        self.complain(key, "a list of words is wanted here; it is left out")
        return default

    def has(self, key: str) -> bool:
        """Whether the key is given, with something in it."""
        return self._get(key) is not None

    def sections(self, key: str, most: int) -> tuple[Section, ...]:
        """A list of sections, at most `most` of them."""
        value = self._get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, Section) for item in value):
            self.complain(key, "a list of sections (`- match: …`) is wanted here; it is left out")
            return ()
        if len(value) > most:
            self.complain(key, f"more than {most} entries; the first {most} hold")
        return tuple(cast("list[Section]", value[:most]))

    @property
    def line(self) -> int:
        """The first line that it has keys on."""
        return min((line for line in self.lines.values() if line), default=0)

    def all_texts(self) -> dict[str, str]:
        """Every key of this section with its word."""
        found = {}
        for key in self.values:
            value = self._get(key)
            if isinstance(value, str):
                found[key] = value
            else:
                self.complain(key, "one word is wanted here; it is left out")
        return found

    def report_unknown(self) -> None:
        """Report the keys nobody asked for, each with the nearest one that exists."""
        for key in self.values:
            if key in self.asked:
                continue
            near = difflib.get_close_matches(key, sorted(self.asked), n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(self.asked))}"
            self.complain(key, f"unknown setting{hint}")


def parse(text: str, path: str, problems: list[Problem]) -> Section | None:
    """The text's outermost section; None, with a problem, when it cannot be read."""
    if len(text) > MAX_CHARACTERS and not path.endswith(".toml"):
        problems.append(Problem(path, 0, f"longer than {MAX_CHARACTERS} characters; the defaults hold"))
        return None
    reader = _read_toml if path.endswith(".toml") else _read_yaml
    return reader(text, path, problems)


def _shown(value: Value) -> str:
    return repr(value)[:60] if isinstance(value, str) else "this"


# --- YAML ---------------------------------------------------------------------------------------------------


def _read_yaml(text: str, path: str, problems: list[Problem]) -> Section | None:
    try:
        _refuse_hostile(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "this is no YAML"
        problems.append(Problem(path, mark.line + 1 if mark else 0, f"{what}; the defaults hold"))
        return None
    if node is None:
        return Section(path, {}, {}, problems)
    if not isinstance(node, yaml.MappingNode):
        problems.append(Problem(path, node.start_mark.line + 1, "settings with names are wanted; the defaults hold"))
        return None
    return _yaml_section(node, path, problems, "")


class _Refused(yaml.YAMLError):
    """YAML that we do not read, shaped like PyYAML's own errors."""

    def __init__(self, problem: str, event: yaml.Event) -> None:
        super().__init__(problem)
        self.problem = problem
        self.problem_mark = event.start_mark


def _refuse_hostile(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise _Refused("aliases (*name) are not supported", event)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _Refused("nested too deeply", event)


def _yaml_section(node: yaml.MappingNode, path: str, problems: list[Problem], prefix: str) -> Section:
    values: dict[str, Value] = {}
    lines: dict[str, int] = {}
    section = Section(path, values, lines, problems, prefix)
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            problems.append(Problem(path, line, f"{prefix or 'here'}: a plain name is wanted as a key"))
            continue
        key = str(key_node.value)
        if key in values:
            problems.append(Problem(path, line, f"{prefix}{key}: given twice; the last one holds"))
        lines[key] = line
        values[key] = _yaml_value(value_node, path, problems, f"{prefix}{key}.")
    return section


def _yaml_value(node: yaml.Node, path: str, problems: list[Problem], prefix: str) -> Value:
    if isinstance(node, yaml.MappingNode):
        return _yaml_section(node, path, problems, prefix)
    if isinstance(node, yaml.SequenceNode):
        return [_yaml_value(item, path, problems, prefix) for item in node.value]
    if node.tag == "tag:yaml.org,2002:null":
        return None
    return str(node.value)


# --- TOML ---------------------------------------------------------------------------------------------------


def _read_toml(text: str, path: str, problems: list[Problem]) -> Section | None:
    try:
        document = parse_toml(text)
    except (TomlError, RecursionError) as error:
        line = re.search(r"line (\d+)", str(error))
        problems.append(Problem(path, int(line[1]) if line else 0, f"{error}; the defaults hold"))
        return None
    tool = document.get("tool")
    table = tool.get("preflight", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        problems.append(Problem(path, 0, "tool.preflight: a table is wanted; the defaults hold"))
        return None
    return _toml_section(table, text, path, problems, "")


def _toml_section(table: Mapping[str, Any], text: str, path: str, problems: list[Problem], prefix: str) -> Section:
    lines = {key: _toml_line(text, prefix, key) for key in table}
    values = {key: _toml_value(value, text, path, problems, f"{prefix}{key}.") for key, value in table.items()}
    return Section(path, values, lines, problems, prefix)


def _toml_value(value: Any, text: str, path: str, problems: list[Problem], prefix: str) -> Value:
    if isinstance(value, dict):
        return _toml_section(value, text, path, problems, prefix)
    if isinstance(value, list):
        return [_toml_value(item, text, path, problems, prefix) for item in value]
    return value if isinstance(value, str) else str(value)


def _toml_line(text: str, prefix: str, key: str) -> int:
    """The first line that gives `key` below its table's header: TOML parsers keep no positions."""
    parent = re.escape(f"tool.preflight.{prefix}".rstrip("."))
    header = re.compile(rf"^\[\[?\s*{parent}\s*\]", re.MULTILINE).search(text)
    start = header.end() if header else max(text.find("[tool.preflight"), 0)
    name = rf"[\"']?{re.escape(key)}[\"']?"
    given = re.compile(
        rf"^\s*(?:[\w.\"'-]+\.)?{name}\s*=|^\[\[?\s*{parent}\.{name}|^[^#\n]*\b{re.escape(key)}\b", re.MULTILINE
    )
    match = given.search(text, start)
    return text.count("\n", 0, match.start() + len(match[0]) - len(match[0].lstrip())) + 1 if match else 0
