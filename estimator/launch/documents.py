"""YAML, JSON and TOML files as trees that know their lines. Nothing is constructed, and sizes are bounded.

YAML is composed, never loaded: no tag makes an object, and an alias stays a pointer to what it means, so a bomb of
aliases costs what its text costs. JSON is read as the YAML it is. TOML has no positions: a key's line is searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from analyzer.errors import PreflightError
from analyzer.toml import parse_toml
from estimator.sourced import Origin

MAX_BYTES = 512 * 1024
MAX_DOCUMENTS = 50
MAX_DEPTH = 60
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class UnreadableDocument(PreflightError):
    """A file that is no YAML, JSON or TOML, or too large or too deep to read."""


@dataclass(frozen=True, slots=True)
class Node:
    """A place in a document: a mapping, a list or a scalar, with its line. `path` is the file. `raw` is a node of the
    parser, or a mapping from key to `Node` that was put together from several files."""

    path: str
    line: int
    raw: Any

    def get(self, dotted: str) -> Node | None:
        """The entry under ``a.b.c``, or None. A key may itself hold dots (``nvidia.com/gpu``): the longest wins."""
        mapping = self.mapping()
        if dotted in mapping:
            return mapping[dotted]
        parts = dotted.split(".")
        for count in range(len(parts) - 1, 0, -1):
            inner = mapping.get(".".join(parts[:count]))
            if inner is not None:
                return inner.get(".".join(parts[count:]))
        return None

    def mapping(self) -> dict[str, Node]:
        """The entries of a mapping; empty for anything else. A later key wins; ``<<`` merges."""
        if isinstance(self.raw, dict):
            return self.raw
        if isinstance(self.raw, yaml.MappingNode):
            return _yaml_mapping(self.path, self.raw, 0)
        if isinstance(self.raw, Plain) and isinstance(self.raw.value, dict):
            return {str(key): self.raw.child(self.path, key, value) for key, value in self.raw.value.items()}
        return {}

    def items(self) -> list[Node]:
        """The items of a list; a scalar is a list of itself, a mapping has none."""
        if isinstance(self.raw, yaml.SequenceNode):
            return [Node(self.path, item.start_mark.line + 1, item) for item in self.raw.value]
        if isinstance(self.raw, Plain) and isinstance(self.raw.value, list):
            return [self.raw.child(self.path, None, item) for item in self.raw.value]
        return [] if self.mapping() or self.value is None else [self]

    @property
    def value(self) -> str | int | float | bool | None:
        """The scalar as Python; None for null, and for what is no scalar."""
        if isinstance(self.raw, Plain):
            return self.raw.value if isinstance(self.raw.value, (str, int, float, bool)) else None
        return _scalar(self.raw) if isinstance(self.raw, yaml.ScalarNode) else None

    @property
    def text(self) -> str:
        """The scalar as it is written; empty for what is none."""
        if isinstance(self.raw, yaml.ScalarNode):
            return str(self.raw.value)
        value = self.value
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    @property
    def is_list(self) -> bool:
        """Whether it is a sequence."""
        is_plain = isinstance(self.raw, Plain) and isinstance(self.raw.value, list)
        return is_plain or isinstance(self.raw, yaml.SequenceNode)

    @property
    def is_block(self) -> bool:
        """Whether the scalar is a block (``|`` or ``>``), whose text starts on the next line."""
        return isinstance(self.raw, yaml.ScalarNode) and self.raw.style in {"|", ">"}

    def origin(self, words: str = "") -> Origin:
        """Where it is, in words a person would look for."""
        return Origin(words or self.text[:80], self.path, self.line)


@dataclass(frozen=True, slots=True)
class Plain:
    """A value of a TOML file, with the text to search lines in."""

    value: Any
    source: str

    def child(self, path: str, key: str | None, value: Any) -> Node:
        line = 0
        if key is not None:
            match = re.search(rf"^\s*(?:\[+)?[\w.\"-]*{re.escape(str(key))}\"?\s*(?:=|\])", self.source, re.MULTILINE)
            line = self.source.count("\n", 0, match.start()) + 1 if match else 0
        return Node(path, line, Plain(value, self.source))


def _yaml_mapping(path: str, node: yaml.MappingNode, depth: int) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.tag == "tag:yaml.org,2002:merge" and isinstance(value, yaml.MappingNode) and depth < 10:
            for name, merged in _yaml_mapping(path, value, depth + 1).items():
                found.setdefault(name, merged)
            continue
        found[str(key.value)] = Node(path, key.start_mark.line + 1, value)
    return found


def _scalar(node: yaml.ScalarNode) -> str | int | float | bool | None:
    """YAML 1.1 as PyYAML's safe loader reads it, without constructing anything else."""
    kind, text = node.tag.rsplit(":", 1)[-1], str(node.value)
    if kind == "null":
        return None
    if kind == "bool":
        return _BOOLEANS.get(text.lower())
    if kind in {"int", "float"}:
        cleaned = text.replace("_", "")
        try:
            return int(cleaned, 0) if kind == "int" else float(cleaned)
        except ValueError:
            return text
    return text


@lru_cache(maxsize=64)
def documents(path: str, source: bytes) -> tuple[Node, ...]:
    """The documents of a YAML or JSON file, or the one of a TOML file. Raises `UnreadableDocument`."""
    if len(source) > MAX_BYTES:
        raise UnreadableDocument(f"more than {MAX_BYTES // 1024} KiB")
    text = source.decode("utf-8", "replace")
    if path.endswith(".toml"):
        try:
            return (Node(path, 1, Plain(parse_toml(text), text)),)
        except ValueError as error:
            raise UnreadableDocument(f"not TOML: {error}") from None
        except RecursionError:
            raise UnreadableDocument("nested too deeply") from None
    return tuple(_composed(path, text))


def _composed(path: str, text: str) -> Iterator[Node]:
    if text.count("[") + text.count("{") > MAX_BYTES // 16 or _is_deep(text):
        raise UnreadableDocument("nested too deeply")
    try:
        loader = yaml.SafeLoader(text)
    except yaml.YAMLError:
        raise UnreadableDocument("not text") from None
    try:
        for _ in range(MAX_DOCUMENTS):
            if not loader.check_node():
                return
            node = loader.get_node()
            if node is not None:
                yield Node(path, node.start_mark.line + 1, node)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark is not None else ""
        raise UnreadableDocument(f"not YAML{place}") from None
    finally:
        loader.dispose()


def _is_deep(text: str) -> bool:
    """Whether flow collections, or indentation, nest deeper than any real file."""
    depth = 0
    for char in re.finditer(r"[\[\]{}]", text):
        depth += 1 if char[0] in "[{" else -1
        if depth > MAX_DEPTH:
            return True
    return any(len(line) - len(line.lstrip(" -")) > 4 * MAX_DEPTH for line in text.splitlines())
