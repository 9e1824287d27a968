"""Makefiles: the recipes of the targets, as shell. ``VAR ?= x`` counts as it stands; ``make VAR=y`` beats the file."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from estimator.launch.base import Arg, LaunchConfig, Request, Target, not_known
from estimator.launch.embedded import launches

_ASSIGNMENT = re.compile(r"^(?:export\s+)?([A-Za-z_]\w*)\s*(\?|:{1,3}|\+)?=\s*(.*)$")
_RULE = re.compile(r"^([\w./%\- ]+?)\s*::?(?!=)")
_MAX_BYTES = 256 * 1024
_MAX_DEPTH = 10


class MakeReader:
    """``Makefile`` and ``*.mk``."""

    format = "make"
    rank = 85

    def detect(self, path: str, content: bytes) -> bool:
        """By name, and because a recipe starts Python."""
        name = posixpath.basename(path)
        is_named = name in {"Makefile", "makefile", "GNUmakefile"} or name.endswith(".mk")
        return (
            is_named
            and len(content) <= _MAX_BYTES
            and bool(re.search(rb"(?m)^\t.*(?:python|torchrun|launch|\.sh|\.py)", content))
        )

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The launches of every recipe, or of the targets that a command names."""
        lines = request.content.decode("utf-8", "replace").splitlines()
        given = [arg.text for arg in request.argv or ()]
        variables = {**dict(_assignments(lines)), **dict(word.split("=", 1) for word in given if "=" in word)}
        wanted = {word for word in given if "=" not in word and not word.startswith("-")}
        nothing = not_known("a Makefile names no GPU")
        target = Target(gpu=nothing, gpus_per_node=nothing, nodes=not_known("one machine"))
        found: list[LaunchConfig] = []
        holes = {"MAKE_HOLE": Arg("$MAKE_HOLE", request.path, 1, "a variable that make computes")}
        for name, line, recipe in _recipes(lines):
            if not wanted or name in wanted:
                text = "\n".join(_expanded(part, variables, name, 0) for part in recipe)
                found += launches(request, self.format, (line, text), target, holes)
        return tuple(found)


READER = MakeReader()


def _assignments(lines: list[str]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for line in lines:
        match = _ASSIGNMENT.match(line)
        if match is not None and not line.startswith("\t"):
            name, how, value = match[1], match[2], re.sub(r"\s+#.*$", "", match[3])
            if how == "?" and name in seen:
                continue
            seen.add(name)
            yield name, "$(shell)" if how == "+" else value.strip()


def _recipes(lines: list[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Every target with the line its recipe starts on and the recipe's lines."""
    name, start, recipe = "", 0, list[str]()
    for number, line in enumerate([*lines, "end:"], 1):
        if line.startswith("\t") and name:
            start = start or number
            recipe.append(re.sub(r"^\t[@+\-\s]*", "", line))
            continue
        if recipe and recipe[-1].endswith("\\"):
            recipe.append(line.strip())
            continue
        rule = _RULE.match(line)
        if rule is not None or not line.strip():
            if recipe and rule is not None:
                yield name, start, recipe
            elif recipe:
                recipe.append("")
                continue
            name, start, recipe = (rule[1].split()[0] if rule is not None else ""), 0, []


def _expanded(text: str, variables: Mapping[str, str], target: str, depth: int) -> str:
    """``$(VAR)`` and ``${VAR}`` replaced, ``$$`` left to the shell, what make computes a hole."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[3]
        if name == "$":
            return "$"
        if name == "@":
            return target
        known = variables.get(name)
        if known is None or depth >= _MAX_DEPTH:
            return "" if known is None and re.fullmatch(r"\w+", name) else "$MAKE_HOLE"
        return _expanded(known, variables, target, depth + 1)

    return re.sub(r"\$(?:\(([^()]*)\)|\{([^{}]*)\}|(.))", value, text[:8192])
