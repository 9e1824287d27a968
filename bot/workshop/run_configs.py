"""The run config documents of a tree's launch files, for the commands that start from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from analyzer.api import Files
from bot.core.review_input import ReviewInput
from estimator.api import launches


def run_configs(head: Files, given: ReviewInput) -> Mapping[str, Mapping[str, Any]]:
    """By path; the launch files that the pull request changes first, else all of the tree."""
    changed = {file.path for file in given.snapshot.changed_files}
    suffixes = {".slurm", ".sbatch", ".sh", ".bash", ".job"}
    candidates = [path for path in sorted(head.paths()) if PurePosixPath(path).suffix in suffixes]
    chosen = [path for path in candidates if path in changed] or candidates
    found: dict[str, Mapping[str, Any]] = {}
    for path in chosen[:20]:
        for launch in launches(head, [path], targets=given.config.targets).launches:
            found.setdefault(path, launch.to_json()["run_config"])
    return found
