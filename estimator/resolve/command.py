"""Words to a launch command: wrappers off, launcher options apart, the script and its arguments.

What a program's options mean is data (``launchers.toml``); this module only walks over words.
"""

from __future__ import annotations

import fnmatch
import posixpath
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from estimator.launch.base import Arg, Command
from estimator.resolve import rows


def table() -> Mapping[str, Any]:
    """``launchers.toml``."""
    return rows.table("launchers")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A command, and the options of the wrappers around it (``srun --nodes=2``)."""

    command: Command
    wrapper_options: Mapping[str, Arg] = field(default_factory=dict)


def parse(words: Sequence[Arg], env: Mapping[str, Arg], cwd: str = ".") -> Parsed | None:
    """The launch command in `words`; None when they start no Python program (or one that never trains)."""
    rest, environment = list(words), dict(env)
    wrapped: dict[str, Arg] = {}
    for _ in range(len(words)):
        rest = _environment(rest, environment)
        if not rest or not rest[0].is_known:
            return None
        wrapper = _wrapper(rest)
        if wrapper is None:
            break
        rest = _unwrap(rest, wrapper, wrapped)
        while rest and rest[0].unknown and rest[0].text.startswith("$"):  # srun $OPTIONS torchrun …
            rest = rest[1:]
    row = _launcher(rest)
    if row is None:
        return None
    command = _command(tuple(words), rest, row, environment, cwd)
    if command is None or _never_trains(command):
        return None
    return Parsed(command, wrapped)


def _environment(words: list[Arg], env: dict[str, Arg]) -> list[Arg]:
    """Take ``NAME=value`` words off the front (``env A=1 python …``)."""
    while words and "=" in words[0].text and words[0].text.split("=", 1)[0].isidentifier():
        name, value = words[0].text.split("=", 1)
        env[name] = Arg(value, words[0].path, words[0].line, words[0].unknown)
        words = words[1:]
    return words


def _program(word: Arg) -> str:
    return posixpath.basename(word.text)


def _wrapper(words: Sequence[Arg]) -> Mapping[str, Any] | None:
    for row in table()["wrapper"]:
        if _program(words[0]) in row["names"]:
            needed = row.get("subcommands")
            if needed is None or (len(words) > 1 and words[1].text in needed):
                return dict(row)
    return None


def _unwrap(words: list[Arg], row: Mapping[str, Any], wrapped: dict[str, Arg]) -> list[Arg]:
    start = 2 if row.get("subcommands") else 1
    takes_value = set(row.get("value_options", ()))
    if row.get("keeps_options"):
        wrapped[_program(words[0])] = words[0]
    index = start
    while index < len(words) and words[index].text in row.get("more_words", ()):
        index += 1
    while index < len(words) and words[index].text.startswith("-"):
        name, has_value, inline = words[index].text.partition("=")
        value = Arg(inline, words[index].path, words[index].line, words[index].unknown, words[index].name)
        is_short = len(name) > 2 and not name.startswith("--") and name[:2] in takes_value
        if is_short:  # -N2
            name, value = name[:2], Arg(words[index].text[2:], words[index].path, words[index].line)
        elif not has_value and name in takes_value and index + 1 < len(words):
            index += 1
            value = words[index]
        if row.get("keeps_options"):
            wrapped[name] = value
        index += 1
    return words[index + int(row.get("leading_words", 0)) :]


def _launcher(words: Sequence[Arg]) -> tuple[Mapping[str, Any], int] | None:
    """The row of the launcher and how many words name it."""
    if not words:
        return None
    for row in table()["launcher"]:
        if any(fnmatch.fnmatchcase(_program(words[0]), pattern) for pattern in row["patterns"]):
            needed = row.get("subcommands")
            if needed is None:
                return row, 1
            if len(words) > 1 and any(fnmatch.fnmatchcase(words[1].text, pattern) for pattern in needed):
                return row, 2
    return (_python_row(), 0) if words[0].text.endswith(".py") else None  # ./train.py


def _python_row() -> Mapping[str, Any]:
    return dict(next(row for row in table()["launcher"] if row["name"] == "python"))


def _module_row(module: str) -> Mapping[str, Any] | None:
    return next((dict(row) for row in table()["launcher"] if module in row.get("modules", ())), None)


def _command(
    whole: tuple[Arg, ...], words: list[Arg], found: tuple[Mapping[str, Any], int], env: dict[str, Arg], cwd: str
) -> Command | None:
    row, skip = found
    options: dict[str, Arg] = {}
    split = _split(words[skip:], row, options)
    if split is None:
        return None
    script, is_module, argv = split
    if {word.text for word in whole} & set(row.get("other_words", ())):
        return None  # what the program does besides training
    inner = _module_row(script.text) if is_module else None
    if inner is not None:  # python -m torch.distributed.run …
        return _command(whole, argv, (inner, 0), env, cwd)
    return Command(
        words=whole, launcher=row["name"], script=script, is_module=is_module, argv=tuple(argv), env=env,
        options=options, cwd=cwd,
    )  # fmt: skip


def _split(words: list[Arg], row: Mapping[str, Any], options: dict[str, Arg]) -> tuple[Arg, bool, list[Arg]] | None:
    """The script (or module) and the words after it; `options` receives the launcher's own."""
    takes_value, flags = set(row.get("value_options", ())), set(row.get("flags", ()))
    is_module = False
    index = 0
    while index < len(words):
        word = words[index]
        if not word.text.startswith("-"):
            if word.is_known or not word.text.startswith("$") or word.text.endswith(".py"):
                return word, is_module, _after(words[index + 1 :])
            index += 1  # a whole unknown word before the script: more launcher options, as far as we can tell
            continue
        name, has_value, inline = word.text.partition("=")
        name = _hyphens(name)
        if name in row.get("code_options", ()):
            return None
        if name in row.get("script_options", ()):
            given = Arg(inline, word.path, word.line, word.unknown) if has_value else None
            given = given or (words[index + 1] if index + 1 < len(words) else word)
            return given, False, words[index + (1 if has_value else 2) :]
        if name in row.get("module_options", ()):
            is_module = True
        elif has_value:
            options[name] = Arg(inline, word.path, word.line, word.unknown, word.name)
        elif name not in flags and (name in takes_value or _looks_like_value(words, index + 1)):
            index += 1
            options[name] = words[index] if index < len(words) else word
        else:
            options[name] = Arg("true", word.path, word.line)
        index += 1
    return None


def _after(words: list[Arg]) -> list[Arg]:
    return words[1:] if words and words[0].text == "--" else words


def _hyphens(option: str) -> str:
    return "--" + option[2:].replace("_", "-") if option.startswith("--") else option


def _looks_like_value(words: Sequence[Arg], index: int) -> bool:
    if index + 1 >= len(words):
        return False
    return not words[index].text.startswith("-") and not words[index].text.endswith(".py")


def _never_trains(command: Command) -> bool:
    excluded = table()["not_training"]
    name = command.script.text
    if not command.is_module:
        return posixpath.basename(name) in excluded["scripts"] or (
            command.launcher == "python" and not name.endswith(".py")
        )
    root = name.split(".")[0]
    return root in sys.stdlib_module_names or root in excluded["modules"] or name in excluded["modules"]


def option_pairs(words: Sequence[Arg]) -> Iterator[tuple[str, Arg, str]]:
    """Each argument's text, the word it owes its value to, and what a person would look for: an option and its value
    belong together (``--batch-size 4``, on the line that says 4)."""
    for index, word in enumerate(words):
        before, after = words[index - 1] if index else None, words[index + 1] if index + 1 < len(words) else None
        if before is not None and _takes_next(before, word):
            yield word.text, word, f"{before.text} {word.text}"
        elif after is not None and _takes_next(word, after):
            yield word.text, after, f"{word.text} {after.text}"
        else:
            yield word.text, word, word.text


def _takes_next(option: Arg, value: Arg) -> bool:
    is_option = option.text.startswith("-") and "=" not in option.text and not option.text[1:2].isdigit()
    return is_option and (not value.text.startswith("-") or value.text[1:2].isdigit())
