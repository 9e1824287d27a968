"""Review a branch as Preflight would review its pull request, without GitHub.

Compares --head with its merge base with --base and prints what the pull request would get: comments, both checks and
the summary. Configuration is read from --base. Only commits count; uncommitted changes are not looked at.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import InputError

if TYPE_CHECKING:
    from bot.core.plan import Plan

_WORSE_THAN = {"error": {"exceeds"}, "warning": {"exceeds", "borderline"}, "never": set[str]()}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("path", nargs="?", default=".", help="the repository (default: here)")
    parser.add_argument("--base", required=True, metavar="REF", help="the branch the change would be merged into")
    parser.add_argument("--head", default="HEAD", metavar="REF", help="the change (default: HEAD)")
    parser.add_argument("--dry-run", action="store_true", help="say so explicitly: this command never writes to GitHub")
    parser.add_argument("--format", choices=("terminal", "json", "markdown", "html"), default="terminal")
    parser.add_argument(
        "--fail-on",
        choices=tuple(_WORSE_THAN),
        default="error",
        help="exit 1 for errors and launch configs that cannot fit (default), also for lesser findings, or never",
    )


def run(args: argparse.Namespace) -> int:
    """Print the plan; 1 when a check is as bad as ``--fail-on``."""
    from bot.core.config import find
    from bot.core.review import ReviewInput, review
    from bot.sources.localgit import Repository

    path = Path(args.path)
    if not path.is_dir():
        raise InputError(f"{args.path}: no such directory")
    with Repository(path) as repository:
        snapshot = repository.pull(args.base, args.head)
        config, problems = find(repository.tree(snapshot.base_sha).read)
        plan = review(
            ReviewInput(
                snapshot=snapshot,
                head=repository.tree(snapshot.head_sha),
                base=repository.tree(snapshot.merge_base_sha),
                config=config,
                config_problems=problems,
            )
        )
    print(_shown(plan, args.format))
    if snapshot.head_sha == snapshot.merge_base_sha:
        print(
            f"preflight review: {args.head} adds no commit to {args.base}: only commits are reviewed", file=sys.stderr
        )
    return int(any(check.state in _WORSE_THAN[args.fail_on] for check in plan.checks))


def _shown(plan: Plan, form: str) -> str:
    if form == "json":
        from bot.core.plan_json import plan_to_json

        return json.dumps({"version": 1, **plan_to_json(plan)}, indent=2)
    if form == "html":
        from bot.render.pages.report import report_page

        return report_page(plan.details or {}, inline_style=True)
    from bot.render.plan_text import markdown, terminal

    return markdown(plan) if form == "markdown" else terminal(plan)
