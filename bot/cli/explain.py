"""Explain a rule: why it matters, an example, what to write instead, when it stays quiet, how safe its fix is."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("rule", metavar="RULE", help="a code, name or alias: PF101, graph-retention, TG001")


def run(args: argparse.Namespace) -> int:
    """Print the page of one rule. Raises `InputError` with the nearest names."""
    from bot.catalogue import find

    print(find(args.rule).page, end="")
    return 0
