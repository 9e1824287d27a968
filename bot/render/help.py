"""The options of a command as text of a fixed width.

argparse's own help differs between Python versions and with the width of the terminal; a committed page must not.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Sequence

WIDTH = 100
_INDENT = 26


def command_help(parser: argparse.ArgumentParser) -> str:
    """Usage, arguments and options."""
    actions = [action for action in parser._actions if action.help is not argparse.SUPPRESS]
    words = [action for action in actions if not action.option_strings]
    options = [action for action in actions if action.option_strings]
    parts = ["\n".join(_usage(parser.prog, options, words))]
    for title, group in (("arguments", words), ("options", options)):
        if group:
            parts.append("\n".join([f"{title}:", *(line for action in group for line in _described(action, parser))]))
    return "\n\n".join(parts) + "\n"


def _usage(prog: str, options: Sequence[argparse.Action], words: Sequence[argparse.Action]) -> Iterator[str]:
    start = f"usage: {prog} "
    pieces = [_bracketed(action) for action in options] + [_arity(action) for action in words]
    line = start
    for piece in pieces:
        if len(line) + len(piece) + 1 > WIDTH:
            yield line.rstrip()
            line = " " * len(start)
        line += f"{piece} "
    yield line.rstrip()


def _bracketed(action: argparse.Action) -> str:
    text = f"{action.option_strings[0]}{_value(action)}"
    return text if action.required else f"[{text}]"


def _value(action: argparse.Action) -> str:
    """What follows an option: ``" N"``, ``" [YES]"`` or nothing."""
    if action.nargs == 0:
        return ""
    name = _name(action)
    return f" [{name}]" if action.nargs == "?" else f" {name}"


def _name(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper() if action.option_strings else action.dest


def _arity(action: argparse.Action) -> str:
    name = _name(action)
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}.get(str(action.nargs), name)


def _described(action: argparse.Action, parser: argparse.ArgumentParser) -> Iterator[str]:
    names = ", ".join(action.option_strings) or _name(action)
    label = f"  {names}{_value(action) if action.option_strings else ''}"
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    lines = textwrap.wrap(text, WIDTH - _INDENT, break_on_hyphens=False)
    if not lines:
        yield label
        return
    if len(label) + 2 > _INDENT:
        yield label
        label = ""
    for line in lines:
        yield f"{label:<{_INDENT}}{line}"
        label = ""
