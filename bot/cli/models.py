"""List the models whose shape Preflight knows."""

from __future__ import annotations

import argparse
import json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("search", nargs="?", default="", help="part of a model id")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Print the models that match."""
    from bot.render.tables import aligned
    from estimator.api import model_rows

    found = model_rows(args.search)
    if args.format == "json":
        print(json.dumps({"version": 1, "models": found}, indent=2))
        return 0
    header = ["id", "parameters", "family", "estimate"]
    cells = [[row["id"], f"{row['params'] / 1e9:.2f}B", row["family"], row["kind"]] for row in found]
    print(aligned(header, cells) if cells else "no model matches")
    return 0
