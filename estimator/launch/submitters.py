"""Commands that submit a file of the tree (``sky launch task.yaml``, ``kubectl apply -f job.yaml``, ``sbatch job``).

What the file says is read by its own reader; options of the command beat it. The table is in ``launchers.toml``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from estimator.launch.base import Arg, Command, LaunchConfig, Request, UnreadableLaunch, reader_for
from estimator.launch.places import find_named
from estimator.resolve.command import table
from estimator.resolve.recipes import SUFFIXES, recipe_of, starts_recipe

MAX_DEPTH = 3
_MAX_FILES = 20


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submit command taken apart: the files it names, its options, and what follows the file."""

    row: Mapping[str, Any]
    files: tuple[Arg, ...]
    options: tuple[Arg, ...]
    argv: tuple[Arg, ...]


def submitted(words: Sequence[Arg]) -> Submitted | None:
    """The submit command in `words`; None for any other."""
    if not words or not words[0].is_known:
        return None
    for row in table()["submitter"]:
        if posixpath.basename(words[0].text) not in row["names"]:
            continue
        for verbs in row["subcommands"]:
            if [word.text for word in words[1 : len(verbs) + 1]] == verbs:
                return _taken_apart(row, list(words[len(verbs) + 1 :]))
    return None


def _taken_apart(row: Mapping[str, Any], words: list[Arg]) -> Submitted:
    names, takes_value = row.get("file", ()), row.get("value_options", ())
    files: list[Arg] = []
    options: list[Arg] = []
    index = 0
    while index < len(words):
        word = words[index]
        name, has_value, inline = word.text.partition("=")
        following = words[index + 1] if index + 1 < len(words) else None
        index += 1
        if name in names:
            index += not has_value
            value = replace(word, text=inline) if has_value else following
            files += [value] if value is not None else []
        elif word.text.startswith("-"):
            options.append(word)
            if not has_value and name in takes_value and following is not None:
                options.append(following)
                index += 1
        elif names or not _is_file(row, word):
            options.append(word)
        elif row.get("passes"):
            return Submitted(row, (word,), tuple(options), tuple(words[index:]))
        else:
            files.append(word)
    if not names and row.get("implied"):
        place = words[0] if words else Arg("", "", 0)
        return Submitted(row, tuple(replace(place, text=name) for name in row["implied"]), (), tuple(words))
    return Submitted(row, tuple(files), tuple(options), ())


def _is_file(row: Mapping[str, Any], word: Arg) -> bool:
    if "implied" in row:
        return False
    return (
        not row.get("suffixes") or word.text.partition("::")[0].endswith(tuple(row["suffixes"])) or _module(word) != ""
    )


def _module(word: Arg) -> str:
    """``modal run src.train``: the file of a dotted module."""
    name = word.text.partition("::")[0]
    return name.replace(".", "/") + ".py" if re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", name) else ""


def launches_of(command: Submitted, request: Request, cwd: str, line: int) -> Iterator[LaunchConfig]:
    """The launches of the files that a submit command names, as launches of the file it stands in."""
    if request.depth >= MAX_DEPTH:
        raise UnreadableLaunch(f"files that submit files, more than {MAX_DEPTH} deep")
    for named in command.files[:_MAX_FILES]:
        names = [named.text.partition("::")[0], _module(named)] if "modal" in command.row["names"] else [named.text]
        words = [replace(named, text=name) for name in names if name]
        path = next((path for word in words if (path := find_named(request.files, word, cwd, request.path))), None)
        content = request.files.read(path) if path is not None else None
        reader = reader_for(path, content) if path is not None and content is not None else None
        if path is None or content is None or reader is None or path == request.path:
            continue
        inner = replace(
            request, path=path, content=content, options=command.options, argv=command.argv, depth=request.depth + 1
        )
        for found in reader.read(inner):
            launch = _with_recipe(found, command, request)
            yield replace(launch, path=request.path, line=line, sources=launch.sources | {path})


def _with_recipe(launch: LaunchConfig, command: Submitted, request: Request) -> LaunchConfig:
    """An app may write the configuration that the command line names and start it under another name."""
    if not starts_recipe(launch.command) or _has_recipe(request, launch.command, launch.path):
        return launch
    named = [word for word in command.argv if word.text.endswith(SUFFIXES)]
    given = replace(launch.command, argv=(*launch.command.argv, *named))
    if not named or not _has_recipe(request, given, request.path):
        return launch
    note = f"assumes that {named[0].text} is the configuration it starts"
    return replace(launch, command=given, notes=(*launch.notes, note))


def _has_recipe(request: Request, command: Command, near: str) -> bool:
    """Whether the configuration that a command starts is in the tree."""
    found = recipe_of(request.files, command, near)
    return found is not None and not found.missing
