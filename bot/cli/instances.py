"""List the cloud instance types Preflight knows, with their GPUs and prices."""

from __future__ import annotations

import argparse
import json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("search", nargs="?", default="", help="part of an instance type, provider or GPU name")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Print the instance types that match."""
    from bot.render.tables import aligned
    from estimator.api import instance_rows

    found = instance_rows(args.search)
    if args.format == "json":
        print(json.dumps({"version": 1, "instances": found}, indent=2))
        return 0
    header = ["provider", "instance type", "GPU", "count", "usable GiB each", "USD/h"]
    cells = [
        [
            row["provider"],
            row["instance_type"],
            row["gpu"],
            row["count"],
            row["usable_gib"] or "?",
            "?" if row["usd_hour"] is None else f"{row['usd_hour']:.2f}",
        ]
        for row in found
    ]
    print(aligned(header, cells) if cells else "no instance type matches")
    return 0
