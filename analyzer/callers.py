"""Who calls what no code of a tree names: frameworks, tools and command lines (``knowledge/callers.toml``)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from importlib import resources
from typing import Any

from analyzer.knowledge.schema import knowledge
from analyzer.toml import parse_toml


@lru_cache(maxsize=1)
def _tables() -> dict[str, list[dict[str, Any]]]:
    return parse_toml((resources.files("analyzer.knowledge") / "callers.toml").read_text("utf-8"))


@lru_cache(maxsize=1)
def _methods() -> tuple[tuple[frozenset[bytes], frozenset[bytes]], ...]:
    """Names of methods, each with the libraries of which one must be imported; without any, always."""
    rows = [(_words(row.get("library", ())), _words(row["names"])) for row in _tables()["methods"]]
    for each in knowledge().frameworks:
        rows.append((_words(base.partition(".")[0] for base in each.bases), _words(each.hooks)))
    return tuple(rows)


def _words(names: Collection[str] | Iterator[str]) -> frozenset[bytes]:
    return frozenset(name.encode() for name in names)


def called_by(imported: Collection[bytes]) -> frozenset[bytes]:
    """The methods that are called on an object of a plain class in a tree which imports these modules."""
    rows = (names for libraries, names in _methods() if not libraries or not libraries.isdisjoint(imported))
    return frozenset().union(*rows)


def is_served(path: str, source: bytes) -> bool:
    """Whether a tool calls what a file defines."""
    return path.rpartition("/")[2] in _files() or _served().search(source) is not None


@lru_cache(maxsize=1)
def _files() -> frozenset[str]:
    return frozenset(name for row in _tables()["tool"] for name in row.get("files", ()))


@lru_cache(maxsize=1)
def _served() -> re.Pattern[bytes]:
    rows = _tables()["tool"]
    libraries = [name.replace("*", r"\w*") for row in rows for name in row.get("library", ())]
    names = [name for row in rows for name in row.get("names", ())]
    text = f"^(?:from|import)[ \\t]+(?:{'|'.join(libraries)})\\b|^(?:def|class)[ \\t]+(?:{'|'.join(names)})\\b"
    return re.compile(text.encode(), re.MULTILINE)


def offered(source: bytes) -> Iterator[frozenset[bytes]]:
    """The last names of what is given to each call that makes a command line of it; none: of all in the file."""
    commands, pattern = _commands()
    if any(command in source for command in commands):  # a hundred times faster than the pattern
        for match in pattern.finditer(source):
            yield frozenset(name.rpartition(b".")[2] for name in _NAME.findall(match[1]))


_NAME = re.compile(rb"[A-Za-z_][\w.]*")


@lru_cache(maxsize=1)
def _commands() -> tuple[tuple[bytes, ...], re.Pattern[bytes]]:
    names = [name for row in _tables()["command"] for name in row["names"]]
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\(([^()]{{0,400}})".encode())
    return tuple(f"{name}(".encode() for name in names), pattern
