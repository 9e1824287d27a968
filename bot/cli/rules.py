"""List the rules: code, name, alias, severity, and what each finds."""

from __future__ import annotations

import argparse
import json

_WIDTH = 160


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Print every rule."""
    from bot.catalogue import all_rules
    from bot.cli._width import columns
    from bot.render.tables import aligned

    rules = all_rules()
    if args.format == "json":
        fields = ("code", "name", "alias", "since", "summary")
        rows = [
            {**{field: getattr(rule, field) for field in fields}, "severity": rule.severity.value} for rule in rules
        ]
        print(json.dumps({"version": 1, "rules": rows}, indent=2, ensure_ascii=False))
        return 0
    cells = [[rule.code, rule.name, rule.alias or "", rule.severity.value, rule.summary] for rule in rules]
    print(aligned(["code", "name", "alias", "severity", "what it finds"], cells, columns(_WIDTH)))
    return 0
