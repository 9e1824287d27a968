"""Explain a rule: what the bug costs, an example, what to write instead, when it stays quiet, how safe its fix is.

A rule is named by its code, its name, or its code in torch-preflight.
"""

from __future__ import annotations

import argparse

_WIDTH = 118  # as the pages are written


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("rule", metavar="RULE", help="a code, name or alias: PF101, graph-retention, TG001")
    parser.add_argument("--format", choices=("terminal", "markdown"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Print the page of one rule. Raises `InputError` with the nearest names."""
    from bot.catalogue import find
    from bot.cli._width import columns
    from bot.render.page import plain

    page = find(args.rule).page
    print(page if args.format == "markdown" else plain(page, columns(_WIDTH)), end="")
    return 0
