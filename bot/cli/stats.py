"""Show what became of findings: which warnings prevented failures, and which were noise.

Counted when a pull request is closed, per rule, repository, framework and pattern of the message; no code is kept.
Reads REDIS_URL and PREFLIGHT_NAMESPACE. `useful` is the share that was fixed before the merge, `noise` the share that
people dismissed or suppressed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.errors import InputError, Unavailable

if TYPE_CHECKING:
    from bot.core.tally import Row

_GROUPS = ("rule", "repository", "framework", "pattern")
_HEADS = ("findings", "fixed", "merged", "dismissed", "suppressed", "+1", "-1", "useful", "noise")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--by", choices=_GROUPS, default="rule", help="what a line stands for (default: %(default)s)")
    parser.add_argument("--repo", metavar="OWNER/NAME", action="append", help="only this repository (may be repeated)")
    parser.add_argument(
        "--months", type=int, default=3, metavar="N", help="this month and those before it (default: 3)"
    )
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")


def run(args: argparse.Namespace) -> int:
    """Print the table. Raises `InputError` for a repository without counts."""
    import redis

    from bot.pages.statistics import Statistics
    from bot.settings import namespace, redis_url
    from bot.store import Keys, connect

    if not 1 <= args.months <= 13:
        raise InputError("--months: 1 to 13 are kept")
    statistics = Statistics(connect(redis_url(os.environ), timeout=5), Keys(namespace(os.environ)))
    try:
        repositories = statistics.repositories()
        if args.repo:
            wanted = {name.casefold() for name in args.repo}
            found = {repo_id: name for repo_id, name in repositories.items() if name.casefold() in wanted}
            missing = wanted - {name.casefold() for name in found.values()}
            if missing:
                raise InputError(f"no counts for {', '.join(sorted(missing))}")
            repositories = found
        rows = statistics.rows(repositories, args.by, args.months, time.time())
    except redis.RedisError as error:
        raise Unavailable(f"Redis does not answer ({type(error).__name__})") from None
    if args.format == "json":
        document = {"version": 1, "by": args.by, "months": args.months, "repositories": sorted(repositories.values())}
        print(json.dumps({**document, "rows": [row.to_json() for row in rows]}, indent=2, ensure_ascii=False))
    else:
        print("\n".join(_table(args.by, rows)))
    return 0


def _table(group: str, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return ["No pull request with findings was closed in this time."]
    lines = [(group, *_HEADS), *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _cells(row: Row) -> tuple[str, ...]:
    from bot.render.markdown import visible

    counts = row.counts
    numbers = (counts[name] for name in ("findings", "fixed", "kept", "dismissed", "suppressed", "up", "down"))
    shares = ("-" if share is None else f"{share:.0%}" for share in (row.useful, row.noise))
    return (visible(row.name), *map(str, numbers), *shares)
