"""List the GPUs Preflight knows, with their usable memory."""

from __future__ import annotations

import argparse
import json

_WIDTH = 120


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("search", nargs="?", default="", help="part of a name, or a name as written in a launch file")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Print the cards that match."""
    from bot.cli._width import columns
    from bot.render.tables import aligned
    from estimator.api import gpu_rows

    found = gpu_rows(args.search)
    if args.format == "json":
        print(json.dumps({"version": 1, "gpus": found}, indent=2))
        return 0
    header = ["name", "architecture", "usable GiB", "note"]
    cells = [[row["name"], row["architecture"], row["usable_gib"] or "not known", row["note"]] for row in found]
    print(aligned(header, cells, columns(_WIDTH)) if cells else "no GPU matches")
    return 0
