"""Explain a rule: why it matters, an example, when it stays quiet, how safe its fix is."""

from __future__ import annotations

import argparse

from bot.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("rule", metavar="CODE", help="a code, an alias or a name: PF101, TG001, graph-retention")


def run(args: argparse.Namespace) -> int:
    """Print the page of one rule."""
    from analyzer import catalogue

    rule = catalogue.find(args.rule)
    if rule is None:
        near = ", ".join(catalogue.nearest(args.rule))
        raise InputError(f"no rule {args.rule!r}" + (f"; nearest: {near}" if near else "; see `preflight rules`"))
    print(catalogue.page(rule), end="")
    return 0
