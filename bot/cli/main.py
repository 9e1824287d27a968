"""Find the sub-command, run it, turn errors into exit codes (0 good, 1 findings, 2 usage or input error)."""

from __future__ import annotations

import argparse
import difflib
import importlib
import pkgutil
import sys
import textwrap
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

import bot.cli
from bot.cli._streams import open_closed, silence, tell, write
from bot.cli._width import columns, paragraphs
from bot.errors import PreflightError

_WIDTH = 120


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; thirty options are for ``--help``."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` explains)\n")


class _Formatter(argparse.HelpFormatter):
    """A command's docstring keeps its paragraphs."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return paragraphs(text, width)


def command_names() -> list[str]:
    """The names of the commands, from the files of this folder."""
    names = [module.name for module in pkgutil.iter_modules(bot.cli.__path__)]
    return [name for name in names if not name.startswith("_") and name != "main"]


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"bot.cli.{command.replace('-', '_')}")


def parser_for(command: str) -> tuple[argparse.ArgumentParser, ModuleType]:
    """The parser of one command and its module."""
    module = _module(command)
    parser = _Parser(prog=f"preflight {command}", description=module.__doc__, formatter_class=_Formatter)
    module.configure(parser)
    return parser, module


def _overview() -> str:
    lines = ["usage: preflight COMMAND …", "", "commands:"]
    for name in command_names():
        module = _module(name)
        if not getattr(module, "HIDDEN", False):
            first = (module.__doc__ or "").strip().splitlines()[0]
            start = f"  {name.replace('_', '-'):<12} "
            lines += textwrap.wrap(first, columns(_WIDTH), initial_indent=start, subsequent_indent=" " * len(start))
    lines += ["", "`preflight COMMAND --help` explains one command."]
    return "\n".join(lines)


def _strange(word: str, parser: argparse.ArgumentParser) -> str:
    if not word.startswith("-"):
        return f"one word too many: {word!r}; `preflight COMMAND --help` explains a command"
    options = [option for action in parser._actions for option in action.option_strings]
    close = difflib.get_close_matches(word.split("=")[0], options, n=2, cutoff=0.6)
    return f"unknown option {word[:60]!r}" + (f"; nearest: {', '.join(close)}" if close else "")


def run(argv: Sequence[str]) -> int:
    """Run one command line (without the program name) and return its exit code."""
    open_closed()
    try:
        code = _run(argv)
        write()
    except BrokenPipeError:  # the reader (`| head`) has what it wanted
        code = 0
    except OSError as error:
        if error.filename is not None:  # no stream of ours
            raise
        tell(f"preflight: what it says cannot be written: {error.strerror}")
        code = 2
    except KeyboardInterrupt:
        code = 130
    silence()
    return code


def _run(argv: Sequence[str]) -> int:
    if not argv or argv[0] in {"-h", "--help", "help"}:
        print(_overview())
        return 0 if argv else 2
    if argv[0] in {"-V", "--version"}:
        from importlib import metadata  # slow to import, and every other command starts without it

        print(f"preflight {metadata.version('preflight-bot')}")
        return 0
    known = {name.replace("_", "-"): name for name in command_names()}
    if argv[0] not in known:
        print(f"preflight: no command {argv[0]!r}\n\n{_overview()}", file=sys.stderr)
        return 2
    parser, module = parser_for(argv[0])
    args, strange = parser.parse_known_args(list(argv[1:]))
    if strange:
        print(f"preflight {argv[0]}: {_strange(strange[0], parser)}", file=sys.stderr)
        return 2
    try:
        return int(module.run(args))
    except PreflightError as error:
        print(f"preflight {argv[0]}: {error}", file=sys.stderr)
        return 2
