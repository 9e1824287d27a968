"""The configuration of the project that the working directory is, for commands that estimate without a pull request."""

from __future__ import annotations

import sys

from analyzer.api import Files


def project_targets(files: Files, command: str) -> dict[str, str]:
    """What the partitions, pools and labels of the project are; problems of its configuration go to stderr."""
    from bot.core.config import find

    config, problems = find(files.read)
    for problem in problems:
        print(f"preflight {command}: {problem}", file=sys.stderr)
    return dict(config.targets)
