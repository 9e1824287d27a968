"""List the rules: code, name, severity, alias and what each finds."""

from __future__ import annotations

import argparse
import json


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("--format", choices=("table", "terminal", "json"), default="table")


def run(args: argparse.Namespace) -> int:
    """Print the rules that are installed."""
    from analyzer import catalogue

    rows = [
        {
            "code": rule.code,
            "name": rule.name,
            "severity": rule.severity.value,
            "alias": rule.alias,
            "since": rule.since,
            "summary": (rule.__doc__ or "").strip().splitlines()[0],
        }
        for rule in catalogue.rules()
    ]
    if args.format == "json":
        print(json.dumps({"version": 1, "rules": rows}, indent=2))
        return 0
    width = max(len(str(row["name"])) for row in rows)
    for row in rows:
        print(f"{row['code']}  {row['name']:<{width}}  {row['severity']:<7}  {row['alias'] or '':<5}  {row['summary']}")
    return 0
