"""Check a configuration: `preflight config check [FILE]`.

Without FILE the first of .github/preflight.yml, .github/preflight.yaml and [tool.preflight] in pyproject.toml is read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bot.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("action", choices=("check",))
    parser.add_argument("file", nargs="?", metavar="FILE", help="the configuration (default: looked for here)")


def run(args: argparse.Namespace) -> int:
    """Print each problem with its line; 2 when there is one."""
    from bot.core.config import CONFIG_PATHS, load

    names = (args.file,) if args.file else CONFIG_PATHS
    path = next((Path(name) for name in names if Path(name).is_file()), None)
    if path is None:
        raise InputError(f"{args.file}: no such file" if args.file else f"none of {', '.join(CONFIG_PATHS)} is here")
    _, problems = load(path.read_text(encoding="utf-8", errors="replace"), path.as_posix())
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{path}: good")
    return 2 if problems else 0
